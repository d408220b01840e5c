// run_curves.js: the curves of a run, and of others laid over them.

import {colorName, Curves} from './curves.js';
import {fill, h, setText, toggle} from './dom.js';

import {loss, percent, seconds, short} from './format.js';
import {averaged, smoothed, thinned} from './series.js';

const kSmoothing = 'windlass-smoothing';
const kMiB = 2 ** 20;
const kGiB = 2 ** 30;
const kSmallChartPoints = 600;
const kLargeChartPoints = 1500;
const kScores = /^(eval_(?!loss$|seconds$)|rewards\/)/;

function curve(label, points, color, more = {}, limit = kSmallChartPoints) {
  return {label, points: thinned(points, limit), color, ...more};
}

// `status` names a run: {folder, planned_bytes}; `series` has its numbers.
export class RunCurves {
  constructor() {
    this.charts = {
      loss: new Curves('loss', 'Loss', (value, onAxis) => (onAxis ? short(value) : loss(value)), {tall: true}),
      time: new Curves('step-time', 'Seconds per step', seconds),
      speed: new Curves('speed', 'Tokens per second', short),
      memory: new Curves('memory', 'Memory'),
      rate: new Curves('learning-rate', 'Learning rate', short),
      norm: new Curves('gradient-norm', 'Gradient norm', short),
    };
    this.scores = new Map();
    this.runs = [];
    this.smoothing = h('input', {
      type: 'range',
      id: 'smoothing',
      min: 0,
      max: 0.99,
      step: 0.01,
      value: sessionStorage.getItem(kSmoothing) ?? '0.8',
      listen: {input: () => this.smooth()}
    });
    this.smoothingText = h('output', {'for': 'smoothing', class: 'num'});
    this.log = h('input', {type: 'checkbox', id: 'log-axis', listen: {change: () => this.draw()}});
    this.error = h('p', {class: 'muted small', 'data-name': 'prediction'});
    this.grid = h('div', {class: 'charts'}, Object.values(this.charts).map((chart) => chart.element));
    this.controls =
        h('div', {class: 'actions small'}, h('label', {class: 'check', 'for': 'smoothing'}, 'smoothing'),
          this.smoothing, this.smoothingText, h('label', {class: 'check'}, this.log, 'log axis'));
    this.element = h('div', {class: 'stack tight'}, this.grid, this.error);
    setText(this.smoothingText, this.smoothing.value);
  }

  smooth() {
    sessionStorage.setItem(kSmoothing, this.smoothing.value);
    setText(this.smoothingText, this.smoothing.value);
    this.draw();
  }

  // Runs are {status, series}; the first one is the view's own.
  show(runs) {
    this.runs = runs;
    this.draw();
  }

  draw() {
    if (this.runs.length === 0) return;
    this.charts.loss.log = this.log.checked;
    this.charts.loss.draw(this.lossCurves());
    this.drawPlain('speed', 'tokens_per_second', 'tokens/s');
    this.drawPlain('rate', 'lr', 'learning rate');
    this.drawPlain('norm', 'grad_norm', 'gradient norm');
    this.charts.time.draw(this.pairs('step_seconds', 'measured', 'predicted_seconds', 'predicted'));
    this.drawMemory();
    this.drawScores();
    setText(this.error, this.predictionText());
  }

  label(run, what) {
    return this.runs.length > 1 ? `${run.status.folder} ${what}` : what;
  }

  // In the legend of several runs, a run is its folder, and a dashed line is named once.
  key(run, what) {
    return this.runs.length > 1 ? run.status.folder : what;
  }

  dashedKey(run, what) {
    return run === this.runs[0] ? what : '';
  }

  lossCurves() {
    return this.runs.flatMap((run, i) => this.lossCurvesOf(run, i));
  }

  // Raw losses of the first run alone, unless nothing is smoothed.
  lossCurvesOf(run, index) {
    const factor = Number(this.smoothing.value), color = colorName(index), smooth = factor > 0;
    const drawn = (key) => run.series.points(key).filter(({y}) => y > 0 || !this.log.checked);
    const raw = drawn('loss'), curves = [];
    const add = (label, points, tint, style) =>
        curves.push(curve(this.label(run, label), points, tint, style, kLargeChartPoints));
    if (index === 0 || !smooth) {
      const key = smooth ? this.dashedKey(run, 'loss') : this.key(run, 'loss');
      add('loss', raw, color, {width: smooth ? 1 : 1.5, faint: smooth, key});
    }
    if (smooth)
      add('loss, smoothed', smoothed(averaged(raw), factor), color, {width: 2, key: this.key(run, 'smoothed')});
    add('evaluation', drawn('eval_loss'), this.runs.length > 1 ? color : '--c1',
        {dots: true, width: 1, dash: [3, 3], key: this.dashedKey(run, 'evaluation')});
    return curves;
  }

  drawPlain(name, key, what) {
    this.charts[name].draw(this.runs.map(
        (run, i) => curve(this.label(run, what), run.series.points(key), colorName(i), {key: this.key(run, what)})));
  }

  pairs(key, what, plannedKey, planned) {
    return this.runs.flatMap(
        (run, i) =>
            [curve(this.label(run, what), run.series.points(key), colorName(i), {key: this.key(run, what)}),
             curve(
                 this.label(run, planned), run.series.points(plannedKey), this.runs.length > 1 ? colorName(i) : '--c1',
                 {dash: [5, 4], key: this.dashedKey(run, planned)}),
    ]);
  }

  // In MiB or GiB, so that the axis has round numbers.
  drawMemory() {
    const curves = this.memoryCurves();
    const highest = Math.max(0, ...curves.flatMap(({points}) => points.map(({y}) => y)));
    const [unit, size] = highest >= kGiB ? ['GiB', kGiB] : ['MiB', kMiB];
    this.charts.memory.form = (value) => `${short(value)} ${unit}`;
    this.charts.memory.draw(curves.map((one) => ({...one, points: one.points.map(({x, y}) => ({x, y: y / size}))})));
  }

  memoryCurves() {
    return this.runs.flatMap((run, i) => {
      const points = run.series.points('ram_bytes');
      const lines = [curve(this.label(run, 'measured'), points, colorName(i), {key: this.key(run, 'measured')})];
      if (this.runs.length === 1)
        lines.push(curve('device, measured', run.series.points('device_bytes').filter(({y}) => y > 0), '--c2'));
      const planned = run.status.planned_bytes;
      if (planned > 0 && points.length > 0)
        lines.push(curve(
            this.label(run, 'planned'), [points[0], points.at(-1)].map(({x}) => ({x, y: planned})),
            this.runs.length > 1 ? colorName(i) : '--c1', {dash: [5, 4], key: this.dashedKey(run, 'planned')}));
      return lines;
    });
  }

  // Charts of scores and rewards appear if a run has them.
  drawScores() {
    const keys =
        new Set(this.runs.flatMap(({series}) => [...series.columns.keys()].filter((key) => kScores.test(key))));
    for (const key of [...keys].slice(0, 12)) {
      if (!this.scores.has(key)) {
        this.scores.set(key, new Curves(key, key.replaceAll('_', ' '), short));
        this.grid.append(this.scores.get(key).element);
      }
      this.scores.get(key).draw(this.runs.map(
          (run, i) => curve(
              this.label(run, key), run.series.points(key), colorName(i), {dots: true, key: this.key(run, key)})));
    }
  }

  predictionText() {
    const series = this.runs[0].series;
    const sum = (key) => series.points(key).reduce((total, {y}) => total + y, 0);
    const measured = sum('step_seconds'), predicted = sum('predicted_seconds');
    if (!(measured > 0 && predicted > 0)) return '';
    const n = series.length;
    return `Mean step: ${seconds(measured / n)} measured, ${seconds(predicted / n)} predicted ` +
        `(${measured >= predicted ? '+' : '−'}${percent(Math.abs(measured / predicted - 1))}).`;
  }

  close() {
    for (const chart of [...Object.values(this.charts), ...this.scores.values()]) chart.close();
  }
}

// Check boxes of the other runs. `change(ids)` is called with those that are chosen.
export class Overlays {
  constructor(own, chosen, change) {
    this.own = own;
    this.chosen = new Set(chosen);
    this.change = change;
    this.list = h('ul', {class: 'choices'});
    this.element =
        h('details', {class: 'fold menu', 'data-name': 'overlays', hidden: true}, h('summary', null, 'Compare with'),
          this.list);
  }

  show(statuses) {
    const others = statuses.filter((status) => status.run_id !== this.own);
    const key = others.map((status) => status.run_id).join();
    if (this.key === key) return;
    this.key = key;
    toggle(this.element, others.length > 0);
    fill(this.list, others.map((status) => this.item(status)));
  }

  item(status) {
    const id = status.run_id;
    const box = h('input', {
      type: 'checkbox',
      'data-overlay': id,
      checked: this.chosen.has(id),
      listen: {
        change: () => {
          if (box.checked)
            this.chosen.add(id);
          else
            this.chosen.delete(id);
          this.change([...this.chosen]);
        }
      }
    });
    return h(
        'li', null,
        h('label', {class: 'check'}, box, h('bdi', null, status.folder),
          h('span', {class: 'muted small'},
            `${status.state}${status.loss === undefined ? '' : `, ${loss(status.loss)}`}`)));
  }
}
