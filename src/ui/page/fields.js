// fields.js: fields of settings, made from the schema of run.yaml. A field shows the draft's text of its key, or the
// default as a placeholder.

import {button, h, setText, toggle} from './dom.js';
import {draftText, setDraft} from './draft.js';
import {defaultText, kindOf, wordsOf} from './settings.js';

function optionsOf(property) {
  const choices = kindOf(property) === 'boolean' ? ['true', 'false'] : property.enum.map(String);
  const initial = defaultText(property);
  return [
    h('option', {value: ''}, initial === '' ? 'not set' : `default: ${initial}`),
    ...choices.map((choice) => h('option', {value: choice}, choice))
  ];
}

function placeholderOf(property, kind) {
  const initial = defaultText(property).replaceAll('\n', ', ');
  if (initial !== '') return initial;
  return kind === 'list' ? 'one a line' : 'not set';
}

function suggestionsOf(key, property) {
  const words = [...wordsOf(property), ...(property.examples ?? [])].map(String);
  return words.length === 0 ? null :
                              h('datalist', {id: `choices-${key}`}, words.map((word) => h('option', {value: word})));
}

function controlOf(key, property, kind) {
  const props = {id: `field-${key}`, 'data-key': key, 'aria-describedby': `help-${key} problem-${key}`};
  if (kind === 'choice' || kind === 'boolean') return h('select', props, optionsOf(property));
  const typed = {...props, placeholder: placeholderOf(property, kind), spellcheck: 'false', autocomplete: 'off'};
  if (kind === 'list') return h('textarea', {...typed, rows: 1});
  return h('input', {...typed, type: 'text', list: `choices-${key}`, inputmode: kind === 'number' ? 'decimal' : null});
}

// A list's field is as high as its lines.
function fitRows(control) {
  if (control.tagName === 'TEXTAREA') control.rows = Math.min(6, Math.max(1, control.value.split('\n').length));
}

// The field of one key. `sync` takes over the draft's text; `complain` marks it.
export class Field {
  constructor(key, property, {help = property.description} = {}) {
    this.key = key;
    this.kind = kindOf(property);
    this.control = controlOf(key, property, this.kind);
    this.problem = h('p', {class: 'problem', id: `problem-${key}`, 'data-name': 'problem', hidden: true});
    this.clear =
        button('clear', 'clear', () => this.reset(), {class: 'clear', 'aria-label': `Clear ${key}`, hidden: true});
    this.element =
        h('div', {class: 'field', 'data-field': key},
          h('div', {class: 'field-head'}, h('label', {'for': `field-${key}`}, h('code', null, key)), this.clear),
          this.control, suggestionsOf(key, property), this.problem,
          h('p', {class: 'help', id: `help-${key}`, title: help}, help));
    this.control.addEventListener('input', () => setDraft(key, this.control.value));
    this.sync();
  }

  reset() {
    setDraft(this.key, '');
    this.control.focus();
  }

  sync() {
    const text = draftText(this.key);
    if (this.control.value !== text) this.control.value = text;
    if (this.control.tagName === 'SELECT' && this.control.value !== text) this.control.value = '';
    fitRows(this.control);
    this.element.classList.toggle('set', text.trim() !== '');
    toggle(this.clear, text.trim() !== '');
  }

  complain(text) {
    setText(this.problem, text ?? '');
    toggle(this.problem, text);
    this.control.setAttribute('aria-invalid', text ? 'true' : 'false');
  }
}

// All keys that have no field elsewhere, folded by group, with a search over names and descriptions.
export class FoldedFields {
  constructor(keys, elsewhere) {
    this.groups = new Map();
    this.fields = new Map();
    for (const [key, property] of Object.entries(keys)) {
      if (elsewhere.has(key) || !(property.verbs ?? ['train']).includes('train')) continue;
      const field = new Field(key, property);
      this.fields.set(key, field);
      this.groupOf(property.group ?? 'Other').grid.append(field.element);
      field.words = `${key} ${(property.aliases ?? []).join(' ')} ${property.description}`.toLowerCase();
    }
    this.search = h('input', {
      type: 'search',
      id: 'search-settings',
      placeholder: 'Search names and meanings',
      'aria-label': 'Search settings',
      listen: {input: () => this.find()}
    });
    this.found = h('p', {class: 'muted small', role: 'status'});
    this.element =
        h('div', {class: 'stack tight'}, this.search, this.found, [...this.groups.values()].map(({fold}) => fold));
  }

  groupOf(name) {
    if (!this.groups.has(name)) {
      const grid = h('div', {class: 'fields'});
      const number = h('span', {class: 'muted small'});
      const fold = h('details', {class: 'fold', 'data-group': name}, h('summary', null, name, ' ', number), grid);
      this.groups.set(name, {fold, grid, number});
    }
    return this.groups.get(name);
  }

  find() {
    const words = this.search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let total = 0;
    for (const field of this.fields.values()) {
      const match = words.every((word) => field.words.includes(word));
      toggle(field.element, match);
      total += match;
    }
    for (const {fold, grid} of this.groups.values()) {
      const any = [...grid.children].some((element) => !element.hidden);
      toggle(fold, any);
      fold.open = words.length > 0 && any;
    }
    setText(this.found, words.length === 0 ? '' : `${total} of ${this.fields.size} settings`);
  }

  // Says at each group how many of its keys are set.
  count() {
    for (const {grid, number} of this.groups.values()) {
      const set = [...grid.children].filter((element) => element.classList.contains('set')).length;
      setText(number, set > 0 ? `${grid.children.length}, ${set} set` : String(grid.children.length));
    }
  }

  reveal(key) {
    this.fields.get(key)?.element.closest('details')?.setAttribute('open', '');
  }
}
