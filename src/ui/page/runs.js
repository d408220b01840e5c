// runs.js: all runs below the root, with their state, loss and what may be done with them.

import {button, fill, h, s, setText, toggle} from './dom.js';
import {failureBox} from './failure.js';
import {ago, count, loss, percent, plural, seconds, width} from './format.js';
import {Poll} from './poll.js';
import {errorOf, get} from './requests.js';
import {resumeRun, stopRun} from './run_actions.js';
import {filesOf} from './run_files.js';
import {thinned} from './series.js';

export const title = 'Runs';

const kBusyMs = 2000;
const kIdleMs = 10000;
const kSparkPoints = 160;

export function progressOf(status) {
  return status.total_steps > 0 ? Math.min(1, status.step / status.total_steps) : 0;
}

// Newest first; those that train before all others.
function ordered(statuses) {
  const rank = (status) => (status.state === 'training' ? 1 : 0);
  return [...statuses].sort(
      (a, b) =>
          rank(b) - rank(a) || (b.updated ?? 0) - (a.updated ?? 0) || String(a.folder).localeCompare(String(b.folder)));
}

export function runLink(status) {
  return `#/run/${encodeURIComponent(status.run_id)}`;
}

export function modelOfRun(status) {
  if (status.has_final) return `${status.folder}/final`;
  const steps = status.checkpoints ?? [];
  return steps.length > 0 ? `${status.folder}/checkpoint-${steps.at(-1)}/model` : null;
}

function drawSpark(svg, points) {
  const drawn = thinned(points, kSparkPoints);
  if (drawn.length < 2) return fill(svg);
  const xs = drawn.map((point) => point.x), ys = drawn.map((point) => point.y);
  const left = Math.min(...xs), right = Math.max(...xs), low = Math.min(...ys), high = Math.max(...ys);
  const place = ({x, y}) => `${(((x - left) / (right - left || 1)) * 156 + 2).toFixed(1)},` +
      `${(38 - ((y - low) / (high - low || 1)) * 34).toFixed(1)}`;
  return fill(svg, s('polyline', {points: drawn.map(place).join(' ')}));
}

// The card of one run. `update(status)` changes what differs.
class Card {
  constructor(id, refresh) {
    this.id = id;
    this.refresh = refresh;
    this.drawn = null;
    this.spark = s('svg', {
      class: 'spark',
      viewBox: '0 0 160 40',
      preserveAspectRatio: 'none',
      role: 'img',
      'aria-label': 'Loss by step'
    });
    this.name = h('a', {class: 'name foreign', 'data-action': 'open'});
    this.state = h('span', {class: 'badge', 'data-name': 'state'});
    this.bar = h('div');
    this.meter =
        h('div', {class: 'progress run-progress', role: 'progressbar', 'aria-label': 'Steps', 'aria-valuemin': 0},
          this.bar);
    this.values = Object.fromEntries(
        ['steps', 'loss', 'eval', 'pace', 'eta'].map((name) => [name, h('dd', {'data-name': name})]));
    this.reason = h('p', {class: 'reason foreign', 'data-name': 'reason', hidden: true});
    this.buttons = this.makeButtons();
    this.element =
        h('li', {class: 'panel run-card', 'data-run': id}, this.spark,
          h('div', {class: 'who'}, h('h2', null, this.name), this.state), this.meter, this.numbers(), this.reason,
          h('div', {class: 'actions'}, Object.values(this.buttons)));
  }

  numbers() {
    const terms = {steps: 'step', loss: 'loss', eval: 'evaluation', pace: 'a step', eta: 'time left'};
    return h(
        'dl', {class: 'numbers'},
        Object.entries(this.values).map(([name, value]) => h('div', {class: name}, h('dt', null, terms[name]), value)));
  }

  makeButtons() {
    return {
      stop: button('Stop', 'stop', (event) => this.act(event, stopRun)),
      resume: button('Resume', 'resume', (event) => this.act(event, resumeRun)),
      talk: h('a', {class: 'button', 'data-action': 'talk'}, 'Talk'),
      export: h('a', {class: 'button', 'data-action': 'export'}, 'Export'),
    };
  }

  async act(event, action) {
    const control = event.currentTarget;
    control.disabled = true;
    this.failure?.remove();
    const error = await action(this.id);
    if (error || control !== this.buttons.stop)
      control.disabled = false;
    else
      setText(control, 'Stopping');
    if (error) this.element.append(this.failure = failureBox(error));
    this.refresh();
  }

  update(status) {
    const share = progressOf(status);
    this.element.className = `panel run-card ${status.state}`;
    setText(this.name, status.folder);
    this.name.href = runLink(status);
    setText(this.state, status.state);
    this.state.className = `badge ${status.state}`;
    this.bar.style.width = width(share);
    this.meter.setAttribute('aria-valuemax', status.total_steps || 1);
    this.meter.setAttribute('aria-valuenow', status.step ?? 0);
    this.updateNumbers(status, share);
    setText(this.reason, status.reason ?? '');
    toggle(this.reason, status.reason && status.state !== 'training');
    this.updateButtons(status);
    this.updateSpark(status);
  }

  updateNumbers(status, share) {
    const training = status.state === 'training';
    const total = status.total_steps > 0 ? ` / ${count(status.total_steps)} · ${percent(share)}` : '';
    setText(this.values.steps, `${count(status.step ?? 0)}${total}`);
    setText(this.values.loss, status.loss === undefined ? '–' : loss(status.loss));
    setText(this.values.eval, status.eval_loss === undefined ? '–' : loss(status.eval_loss));
    setText(this.values.pace, seconds(status.step_seconds));
    setText(this.values.eta, training ? seconds(status.eta_seconds) : ago(status.updated));
    setText(this.values.eta.previousElementSibling, training ? 'time left' : 'last step');
  }

  updateButtons(status) {
    const model = modelOfRun(status);
    const training = status.state === 'training';
    toggle(this.buttons.stop, training);
    if (!training && this.buttons.stop.disabled) {
      this.buttons.stop.disabled = false;
      setText(this.buttons.stop, 'Stop');
    }
    toggle(this.buttons.resume, !training && status.state !== 'done');
    toggle(this.buttons.talk, model !== null);
    toggle(this.buttons.export, model !== null || training);
    this.buttons.talk.href = `#/talk/${encodeURIComponent(model ?? '')}`;
    this.buttons.export.href = `${runLink(status)}/export`;
  }

  async updateSpark(status) {
    const version = `${status.step} ${status.updated}`;
    if (this.drawn === version) return;
    this.drawn = version;
    try {
      const files = filesOf(this.id);
      await files.read('metrics');
      const points = files.series.points('loss');
      drawSpark(this.spark, points);
      const ends = points.length > 1 ? `, from ${loss(points[0].y)} to ${loss(points.at(-1).y)}` : '';
      this.spark.setAttribute('aria-label', `Loss by step${ends}`);
    } catch {
      this.drawn = null;
    }
  }
}

function emptyState() {
  return h(
      'div', {class: 'panel empty', 'data-name': 'empty'}, h('h2', null, 'No runs yet'),
      h('p', null,
        'A run appears here as soon as it trains below this folder, whether it was started on this page or with ',
        h('code', null, 'windlass train'), '.'),
      h('a', {class: 'button primary', href: '#/new'}, 'New run'));
}

export function open() {
  const cards = new Map();
  const list = h('ol', {class: 'run-list', id: 'runs'});
  const body = h('div', null, h('p', {class: 'busy'}, 'Reading runs'));
  const summary = h('p', {class: 'muted', 'data-name': 'summary', 'aria-live': 'polite'});
  const poll = new Poll(refresh);

  async function refresh() {
    let runs;
    try {
      ({runs} = await get('/api/runs'));
    } catch (problem) {
      if (cards.size === 0) fill(body, failureBox(errorOf(problem)));
      throw problem;
    }
    render(ordered(runs.filter((status) => status.run_id)));
    return runs.some((status) => status.state === 'training') ? kBusyMs : kIdleMs;
  }

  function render(runs) {
    const training = runs.filter((status) => status.state === 'training').length;
    setText(summary, runs.length > 0 ? `${plural(runs.length, 'run')}, ${training} training` : '');
    const shown = runs.map((status) => cardOf(status));
    const same = list.children.length === shown.length && shown.every((card, i) => list.children[i] === card.element);
    if (!same) fill(list, shown.map((card) => card.element));
    const wanted = runs.length > 0 ? list : null;
    if (wanted === null)
      fill(body, emptyState());
    else if (body.firstElementChild !== list)
      fill(body, list);
  }

  function cardOf(status) {
    if (!cards.has(status.run_id)) cards.set(status.run_id, new Card(status.run_id, () => poll.now()));
    const card = cards.get(status.run_id);
    card.update(status);
    return card;
  }

  const element =
      h('div', null,
        h('div', {class: 'page-head'}, h('h1', null, 'Runs'), summary,
          h('div', {class: 'actions'},
            h('a', {class: 'button primary', href: '#/new', 'data-action': 'new'}, 'New run'))),
        body);
  return {element, enter: () => poll.start(), leave: () => poll.stop()};
}
