// run_parts.js: what a run leaves besides curves: checkpoints, samples, its log, its settings, commands for after.

import {codeBox, fill, h, longText, table, toggle} from './dom.js';
import {failureBox} from './failure.js';
import {count, loss, seconds} from './format.js';

const kSampleCharacters = 20000;
const kNames = {
  chat: 'Talk in a terminal',
  generate: 'Continue a text',
  export: 'A file for llama.cpp',
  ollama: 'Ollama',
  serve: 'Serve',
  upload: 'Upload',
};

// The last event of a kind.
export function lastEvent(events, kinds) {
  return events.findLast((event) => kinds.includes(event.event));
}

// How the last process ended: nothing while one trains.
export function endOf(status, events) {
  if (status.state === 'training') return null;
  const begun = events.findLastIndex((event) => event.event === 'begin');
  const last = lastEvent(events.slice(Math.max(0, begun)), ['done', 'stopped', 'error']);
  if (last?.event === 'error') return failureBox(last, {name: 'reason'});
  if (status.state === 'failed')
    return failureBox({kind: 'Failed', text: status.reason ?? '', tries: []}, {name: 'reason'});
  if (status.state === 'killed')
    return h(
        'div', {class: 'message warn', 'data-name': 'reason'}, h('p', {class: 'title'}, 'Killed'),
        h('p', null, 'The process ended without a word. Resume continues from the newest state that was saved.'));
  if (last?.event === 'stopped' && last.resume)
    return h(
        'div', {class: 'message warn', 'data-name': 'reason'}, h('p', {class: 'title'}, 'Stopped'),
        h('p', null, 'Resume continues it, or this command:'),
        codeBox('resume', String(last.resume), {line: true}).element);
  return null;
}

export function nextCommands(events) {
  const next = lastEvent(events, ['done'])?.next;
  if (!next) return null;
  return h(
      'section', {class: 'panel stack tight', 'data-name': 'next'}, h('h2', null, 'Next'),
      h('div', {class: 'next'},
        Object.entries(next)
            .filter(([, text]) => typeof text === 'string')
            .map(
                ([name, text]) =>
                    h('div', {class: 'stack tight'}, h('h3', null, kNames[name] ?? name),
                      codeBox(`command ${name}`, text, {line: true}).element))));
}

// One row per checkpoint that is there; the events say how long saving took.
export function checkpointTable(status, events, series) {
  const steps = status.checkpoints ?? [];
  if (steps.length === 0 && !status.has_final) return h('p', {class: 'muted'}, 'Nothing is saved yet.');
  const saved = new Map(events.filter((event) => event.event === 'checkpoint').map((event) => [event.step, event]));
  const evaluations = new Map(series.points('eval_loss').map(({x, y}) => [x, y]));
  const evaluation = {
    head: 'evaluation',
    n: true,
    cell: (row) => (evaluations.has(row.step) ? loss(evaluations.get(row.step)) : '–')
  };
  const rows =
      steps.map((step) => ({step, name: `checkpoint-${step}`, model: `${status.folder}/checkpoint-${step}/model`}));
  if (status.has_final) rows.push({step: null, name: 'final', model: `${status.folder}/final`});
  return table(
      'checkpoints',
      [
        {head: 'folder', cell: (row) => h('code', null, row.name)},
        {head: 'step', n: true, cell: (row) => (row.step === null ? '–' : count(row.step))},
        ...(evaluations.size > 0 ? [evaluation] : []),
        {head: 'saved in', n: true, cell: (row) => seconds(saved.get(row.step)?.seconds)},
        {
          head: '',
          act: true,
          cell: (row) =>
              h('a', {
                class: 'button quiet',
                href: `#/talk/${encodeURIComponent(row.model)}`,
                'aria-label': `Talk with ${row.name}`
              },
                'Talk')
        },
      ],
      rows, {caption: 'Checkpoints'});
}

// Samples of one step, chosen from those that have some.
export class Samples {
  constructor() {
    this.step =
        h('select', {id: 'sample-step', 'aria-label': 'Step of the samples', listen: {change: () => this.choose()}});
    this.list = h('div', {class: 'stack tight'});
    this.element =
        h('section', {class: 'panel', 'data-name': 'samples', hidden: true},
          h('div', {class: 'panel-head'}, h('h2', null, 'Samples'),
            h('label', {class: 'right check small', 'for': 'sample-step'}, 'step', this.step)),
          this.list);
    this.samples = [];
    this.follow = true;
  }

  show(samples) {
    if (samples.length === this.samples.length && samples.at(-1) === this.samples.at(-1)) return;
    this.samples = [...samples];
    toggle(this.element, samples.length > 0);
    const steps = [...new Set(samples.map((sample) => sample.step))];
    const chosen = this.follow ? steps.at(-1) : Number(this.step.value);
    fill(this.step, steps.map((step) => h('option', {value: step, selected: step === chosen}, count(step))));
    this.draw();
  }

  choose() {
    this.follow = this.step.selectedIndex === this.step.options.length - 1;
    this.draw();
  }

  draw() {
    const step = Number(this.step.value);
    fill(
        this.list,
        this.samples.filter((sample) => sample.step === step)
            .slice(0, 50)
            .map(
                (sample) => h(
                    'figure', {class: 'sample'}, h('figcaption', {class: 'muted small foreign'}, sample.prompt ?? ''),
                    h('pre', {tabindex: 0, 'aria-label': 'Sample'}, longText(sample.text ?? '', kSampleCharacters)))));
  }
}

// The end of the log, which follows what is added unless the reader has scrolled up.
export class Log {
  constructor(opened) {
    this.text = h('pre', {tabindex: 0, 'aria-label': 'Log', 'data-name': 'log'});
    this.element =
        h('details', {class: 'panel fold', listen: {toggle: () => this.element.open && opened()}},
          h('summary', null, 'Log', h('span', {class: 'muted small'}, ' last 64 KiB')),
          h('div', {class: 'box'}, this.text));
  }

  get isOpen() {
    return this.element.open;
  }

  show(text) {
    const box = this.text;
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8 || box.textContent === '';
    fill(box, longText(text));
    if (atEnd) box.scrollTop = box.scrollHeight;
  }
}

export class Yaml {
  constructor() {
    this.box = codeBox('run.yaml', '');
    this.element =
        h('details', {class: 'panel fold', 'data-name': 'yaml'}, h('summary', null, 'run.yaml'), this.box.element);
  }

  show(text) {
    this.box.set(text);
  }
}
