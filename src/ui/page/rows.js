// rows.js: rows as a run sees them: which tokens are trained, how long samples are, and what is left out.

import {button, facts, fill, h, longText, say} from './dom.js';
import {draftText, readDraft, setDraft} from './draft.js';
import {failureBox, notesList} from './failure.js';
import {bytes, count, percent, plural} from './format.js';
import {stream, wasAborted} from './requests.js';

const kSamples = 5;
const kSampleCharacters = 4000;

function pieceOf(piece) {
  const text = longText(piece.text ?? '', kSampleCharacters);
  return piece.learned ? h('mark', {'data-learned': 'true'}, text) : h('span', {'data-learned': 'false'}, text);
}

function rowOf(row, index) {
  return h(
      'figure', {class: 'sample', 'data-name': 'row'},
      h('figcaption', {class: 'muted small'},
        `Sample ${index}: ${plural(row.tokens, 'token')}, ${count(row.learned)} trained`),
      h('pre', {tabindex: 0, 'aria-label': `Sample ${index}`}, (row.pieces ?? []).slice(0, 500).map(pieceOf)));
}

function left(stats) {
  const parts = [
    [stats.dropped_long, 'longer than max_length, left out'],
    [stats.truncated, 'cut to max_length'],
    [stats.dropped_empty, 'without trained tokens, left out'],
    [stats.malformed, 'malformed, skipped'],
  ];
  return parts.filter(([n]) => n > 0).map(([n, what]) => `${count(n)} ${what}`);
}

function noteText(note) {
  if (typeof note === 'string') return note;
  const where = note.rows ? ` (${plural(note.rows, 'row')}${note.first ? `, first: ${note.first}` : ''})` : '';
  return `${note.note}${where}`;
}

function statsOf(stats) {
  const leftOut = left(stats);
  const unread = Object.entries(stats.unread_keys ?? {});
  return h(
      'div', {class: 'stack tight', 'data-name': 'stats'},
      facts(
          [
            ['rows', count(stats.rows), 'stat-rows'],
            ['samples', count(stats.samples)],
            ['tokens', count(stats.tokens)],
            ['trained', percent(stats.learned_tokens / stats.tokens)],
            ['shortest', count(stats.shortest)],
            ['median', count(stats.median)],
            ['90 %', count(stats.p90)],
            ['99 %', count(stats.p99)],
            ['longest', count(stats.longest)],
          ],
          {class: 'facts dense'}),
      h('p', {class: leftOut.length > 0 ? 'small' : 'muted small', 'data-name': 'left-out'},
        leftOut.length > 0 ? `Samples: ${leftOut.join('; ')}.` : 'Nothing is left out or cut.'),
      unread.length > 0 &&
          h('p', {class: 'muted small foreign'},
            `Keys that are not read: ${
                unread.slice(0, 20)
                    .map(([key, rows]) => `${key} (${typeof rows === 'number' ? count(rows) : '?'})`)
                    .join(', ')}`),
      notesList((stats.notes ?? []).map(noteText)));
}

// Check boxes for the data files below the root, which edit the lines of train_data.
export class DataChoices {
  constructor() {
    this.list = h('ul', {class: 'choices'});
    this.element = h('details', {class: 'fold', hidden: true}, h('summary', null, 'Files in this folder'), this.list);
  }

  show(files) {
    this.element.hidden = files.length === 0;
    this.boxes = files.map((file) => this.boxOf(file));
    fill(this.list, this.boxes.map(({item}) => item));
    this.sync();
  }

  boxOf(file) {
    const box =
        h('input',
          {type: 'checkbox', 'data-path': file.path, listen: {change: () => this.toggle(file.path, box.checked)}});
    return {
      path: file.path,
      box,
      item:
          h('li', null,
            h('label', {class: 'check'}, box, h('bdi', null, file.path),
              h('span', {class: 'muted small'}, bytes(file.bytes))))
    };
  }

  lines() {
    return draftText('train_data').split('\n').map((line) => line.trim()).filter(Boolean);
  }

  toggle(path, wanted) {
    const others = this.lines().filter((line) => line !== path);
    setDraft('train_data', (wanted ? [...others, path] : others).join('\n'));
  }

  sync() {
    const lines = new Set(this.lines());
    for (const {path, box} of this.boxes ?? []) box.checked = lines.has(path);
  }
}

// The button and what it shows.
export class Rows {
  constructor(apply) {
    this.apply = apply;
    this.body = h('div', {class: 'stack', id: 'rows'});
    this.control = button('Show rows', 'rows', () => this.show());
    this.element =
        h('div', {class: 'stack'},
          h('div', {class: 'actions'}, this.control,
            h('span', {class: 'muted small'}, 'trained tokens are ', h('mark', null, 'marked'))),
          this.body);
  }

  async show() {
    this.abort?.abort();
    this.abort = new AbortController();
    const {settings} = readDraft();
    const signal = this.abort.signal;
    const samples = h('div', {class: 'stack tight'}), stats = h('div', null, h('p', {class: 'busy'}, 'Reading rows'));
    fill(this.body, stats, samples);
    this.control.setAttribute('aria-busy', 'true');
    let shown = 0;
    try {
      const last = await stream('/api/data', {what: 'show', settings, samples: kSamples}, (event) => {
        if (event.event === 'row') samples.append(rowOf(event, ++shown));
      }, {signal});
      if (last.event === 'error') return this.fail(last);
      const all = await stream('/api/data', {what: 'stats', settings}, () => {}, {signal});
      if (all.event === 'error') return this.fail(all);
      fill(stats, statsOf(all));
      say('The rows are shown.');
    } catch (problem) {
      if (!wasAborted(problem)) throw problem;
    } finally {
      if (this.abort.signal === signal) this.control.removeAttribute('aria-busy');
    }
  }

  fail(error) {
    fill(this.body, failureBox(error, {apply: this.apply}));
  }
}
