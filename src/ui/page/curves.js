// curves.js: one chart of curves over steps, drawn by Chart.js in the page's colors.

import {h} from './dom.js';
import {short} from './format.js';

const kColors = 10;
const kDark = window.matchMedia('(prefers-color-scheme: dark)');

const charts = new Set();

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Of the run itself the accent; of those next to it the other colors.
export function colorName(index) {
  return index === 0 ? '--accent' : `--c${index % kColors}`;
}

function axisOf(title, extra) {
  return {
    border: {color: color('--line')},
    grid: {color: color('--line'), drawTicks: false},
    ticks: {color: color('--muted'), padding: 6, maxRotation: 0, autoSkipPadding: 16, ...extra},
    title: {display: title !== '', text: title, color: color('--muted')}
  };
}

// The last step has a tick of its own unless it is too near to the one before.
function dropCrowded(axis) {
  const [before, near, last] = axis.ticks.slice(-3).map(({value}) => value);
  if (axis.ticks.length > 3 && last - near < (near - before) * 0.7) axis.ticks.pop();
}

function optionsOf(form) {
  const size = {family: getComputedStyle(document.body).fontFamily, size: 11.5};
  return {
    animation: false,
    parsing: false,
    normalized: true,
    responsive: true,
    maintainAspectRatio: false,
    font: size,
    interaction: {mode: 'nearest', axis: 'x', intersect: false},
    elements: {point: {radius: 0, hitRadius: 8, hoverRadius: 3}, line: {borderJoinStyle: 'round', tension: 0}},
    scales: {
      x: {
        type: 'linear',
        bounds: 'data',
        min: 0,
        afterBuildTicks: dropCrowded,
        ...axisOf('', {precision: 0, callback: (value) => short(value)})
      },
      y: {type: 'linear', ...axisOf('', {maxTicksLimit: 6, callback: (value) => form(value, true)})},
    },
    plugins: {
      legend: {display: false},
      tooltip: {
        displayColors: true,
        boxWidth: 8,
        boxHeight: 8,
        callbacks: {
          title: (items) => (items.length > 0 ? `step ${short(items[0].parsed.x)}` : ''),
          label: (item) => `${item.dataset.label}: ${form(item.parsed.y)}`,
        },
      },
    },
  };
}

// A curve is {label, key: its name in the legend, empty for none, points, color: a property's name, width, dash, faint,
// dots}.
function datasetOf(curve) {
  const line = color(curve.color);
  return {
    label: curve.label,
    data: curve.points,
    borderColor: curve.faint ? `${line}55` : line,
    backgroundColor: line,
    borderWidth: curve.width ?? 1.5,
    borderDash: curve.dash ?? [],
    pointRadius: curve.dots ? 2.5 : 0,
    showLine: curve.points.length > 1 || !curve.dots,
    order: curve.faint ? 2 : 1,
  };
}

function legendItem(curve) {
  return h(
      'li', {class: curve.dash ? 'dashed' : null},
      h('span', {class: 'swatch line', css: {'--swatch': `var(${curve.color})`, opacity: curve.faint ? '0.4' : '1'}}),
      h('bdi', null, curve.key ?? curve.label));
}

// `form(value, onAxis)` writes a value. `title` names the chart for all readers.
export class Curves {
  constructor(name, title, form = short, {tall = false} = {}) {
    this.title = title;
    this.form = form;
    this.log = false;
    this.curves = [];
    this.canvas = h('canvas', {role: 'img', 'aria-label': title});
    this.legend = h('ul', {class: 'legend'});
    this.empty = h('p', {class: 'muted small chart-empty'}, 'No values yet');
    this.element = h(
        'figure', {class: `chart${tall ? ' tall' : ''}`, 'data-name': name},
        h('figcaption', null, h('h3', null, title), this.legend), h('div', {class: 'canvas'}, this.canvas, this.empty));
    charts.add(this);
  }

  draw(curves) {
    this.curves = curves.filter((curve) => curve.points.length > 0);
    this.empty.hidden = this.curves.length > 0;
    this.legend.replaceChildren(...this.curves.filter(({key}) => key !== '').map(legendItem));
    this.canvas.setAttribute('aria-label', this.summary());
    if (!window.Chart || this.curves.length === 0) return this.destroyChart();
    if (!this.chart)
      this.chart = new window.Chart(
          this.canvas, {type: 'line', data: {datasets: []}, options: optionsOf((...args) => this.form(...args))});
    this.chart.options.scales.y.type = this.log ? 'logarithmic' : 'linear';
    this.chart.data.datasets = this.curves.map(datasetOf);
    this.chart.update('none');
  }

  summary() {
    const parts = this.curves.map(
        ({label, points}) => `${label} from ${this.form(points[0].y)} at step ${points[0].x} to ` +
            `${this.form(points.at(-1).y)} at step ${points.at(-1).x}`);
    return parts.length > 0 ? `${this.title}: ${parts.join('; ')}` : this.title;
  }

  destroyChart() {
    this.chart?.destroy();
    this.chart = null;
  }

  close() {
    this.destroyChart();
    charts.delete(this);
  }
}

kDark.addEventListener('change', () => {
  for (const chart of charts) {
    chart.destroyChart();
    chart.draw(chart.curves);
  }
});
