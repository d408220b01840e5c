// talk.js: talks with a trained model, and with a second one next to it that gets the same questions.

import {Chat} from './chat.js';
import {button, fill, h, setText, toggle} from './dom.js';
import {failureBox} from './failure.js';
import {modelButtons} from './model_choice.js';
import {errorOf, get} from './requests.js';

export const title = 'Talk';

const kSettings = 'windlass-talk';
const kDefaults = {
  first: '',
  second: '',
  system: '',
  temperature: '0.7',
  tokens: '256'
};

function keptSettings() {
  try {
    return {...kDefaults, ...JSON.parse(sessionStorage.getItem(kSettings) ?? '{}')};
  } catch {
    return {...kDefaults};
  }
}

// Results of runs first, then their checkpoints, then other models.
function modelsOf(places, runs) {
  const results =
      runs.filter((run) => run.has_final).map(({folder}) => ({model: `${folder}/final`, from: 'result of a run'}));
  const checkpoints = runs.flatMap(
      ({folder, checkpoints: steps = []}) => [...steps].reverse().map(
          (step) => ({model: `${folder}/checkpoint-${step}/model`, from: `step ${step}`})));
  const found = [...results, ...checkpoints];
  const known = new Set(found.map(({model}) => model));
  return [...found, ...places.filter(({model}) => !known.has(model))];
}

class Talk {
  constructor() {
    this.kept = keptSettings();
    this.chats = [];
    this.known = [];
    this.models = h('datalist', {id: 'talk-models'});
    this.inputs = {
      first: this.modelInput('first', 'choose or type a model'),
      second: this.modelInput('second', 'none'),
      system: this.input('system', h('textarea', {rows: 1, placeholder: 'none'})),
      temperature: this.input('temperature', h('input', {type: 'number', min: 0, max: 5, step: 0.1})),
      tokens: this.input('tokens', h('input', {type: 'number', min: 1, step: 1})),
    };
    this.base = button('', 'base', () => this.useBase(), {class: 'quiet', hidden: true});
    this.problem = h('div', {'aria-live': 'polite'});
    this.columns = h('div', {class: 'chats'});
    this.question = h('textarea', {
      id: 'question',
      rows: 2,
      placeholder: 'Ask something',
      'aria-label': 'Question',
      listen: {keydown: (event) => this.key(event)}
    });
    this.send = h('button', {type: 'submit', class: 'primary', 'data-action': 'send'}, 'Send');
    this.stop = button('Stop', 'interrupt', () => this.chats.forEach((chat) => chat.interrupt()), {disabled: true});
    this.element = this.layout();
    this.showColumns();
  }

  input(name, control) {
    control.id = `talk-${name}`;
    control.setAttribute('data-name', `talk-${name}`);
    control.value = this.kept[name];
    control.addEventListener('change', () => this.changed(name));
    return control;
  }

  modelInput(name, placeholder) {
    return this.input(
        name, h('input', {type: 'text', list: 'talk-models', placeholder, spellcheck: 'false', autocomplete: 'off'}));
  }

  labeled(name, label, ...more) {
    return h('div', {class: 'field'}, h('label', {'for': `talk-${name}`}, label), this.inputs[name], more);
  }

  layout() {
    const settings = h(
        'section', {class: 'panel talk-settings', 'aria-label': 'Models'}, this.models, this.labeled('first', 'model'),
        this.labeled('second', 'next to it', this.base), this.labeled('system', 'system text'),
        h('div', {class: 'pair'}, this.labeled('temperature', 'temperature'), this.labeled('tokens', 'max tokens')));
    const form =
        h('form', {class: 'ask', listen: {submit: (event) => this.submit(event)}}, this.question,
          h('div', {class: 'actions'}, this.send, this.stop, button('Reset', 'reset', () => this.reset())));
    return h(
        'div', {class: 'talk'},
        h('div', {class: 'page-head'}, h('h1', null, 'Talk'),
          h('p', {class: 'muted'}, 'Enter sends, Shift and Enter begin a line')),
        settings, this.problem, this.columns, form);
  }

  async enter(model) {
    if (model) {
      this.inputs.first.value = model;
      this.changed('first');
      history.replaceState(null, '', '#/talk');
    }
    this.question.focus({preventScroll: true});
    try {
      const [places, {runs}] = await Promise.all([get('/api/places'), get('/api/runs')]);
      this.runs = runs;
      this.known = modelsOf(places.models ?? [], runs);
      fill(this.models, this.known.map((one) => h('option', {value: one.model}, one.from)));
      if (this.chats.length === 0) this.showColumns();
      fill(this.problem);
    } catch (problem) {
      fill(this.problem, failureBox(errorOf(problem)));
    }
    this.findBase();
  }

  // New settings need new processes, which load at the next question.
  changed(name) {
    const value = this.inputs[name].value.trim();
    if (value === this.kept[name]) return;
    this.kept[name] = value;
    sessionStorage.setItem(kSettings, JSON.stringify(this.kept));
    this.close();
    this.showColumns();
    if (name === 'first') this.findBase();
  }

  // Offers the model that a run began with.
  async findBase() {
    const first = this.kept.first;
    const run = (this.runs ?? []).find(({folder}) => first.startsWith(`${folder}/`));
    toggle(this.base, false);
    if (!run) return;
    try {
      const {settings} = await get(`/api/runs/${encodeURIComponent(run.run_id)}`);
      if (!settings?.model || this.kept.first !== first || this.kept.second === settings.model) return;
      this.baseModel = settings.model;
      setText(this.base, `Use its base, ${settings.model}`);
      toggle(this.base, true);
    } catch {
      // Without it the base can be typed.
    }
  }

  choose(model) {
    this.inputs.first.value = model;
    this.changed('first');
    this.question.focus();
  }

  useBase() {
    this.inputs.second.value = this.baseModel;
    toggle(this.base, false);
    this.changed('second');
    this.question.focus();
  }

  chatSettings(model) {
    const settings = {
      model,
      temperature: Number(this.kept.temperature) || 0,
      max_new_tokens: Math.max(1, Math.round(Number(this.kept.tokens) || 256))
    };
    if (this.kept.system !== '') settings.system = this.kept.system;
    return settings;
  }

  showColumns() {
    const models = [this.kept.first, this.kept.second].filter(Boolean);
    this.chats = models.map((model, i) => new Chat(this.chatSettings(model), i === 0 ? 'first' : 'second'));
    fill(
        this.columns,
        this.chats.length > 0 ?
            this.chats.map((chat) => chat.element) :
            h('div', {class: 'panel empty'}, h('h2', null, 'Choose a model'),
              h('p', null,
                'The result of a run, one of its checkpoints, or a model folder. It loads with the first question.'),
              modelButtons(this.known, (model) => this.choose(model))));
    this.send.disabled = this.chats.length === 0;
  }

  key(event) {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.submit(event);
  }

  async submit(event) {
    event.preventDefault();
    const question = this.question.value.trim();
    if (question === '' || this.send.disabled) return;
    this.question.value = '';
    await this.busy(this.chats.map((chat) => chat.ask(question)));
  }

  async busy(work) {
    const chats = this.chats;
    this.send.disabled = true;
    this.stop.disabled = false;
    await Promise.allSettled(work);
    if (chats !== this.chats) return;
    this.send.disabled = this.chats.length === 0;
    this.stop.disabled = true;
  }

  reset() {
    if (!this.send.disabled) this.busy(this.chats.map((chat) => chat.reset()));
  }

  close() {
    for (const chat of this.chats) chat.close();
    this.stop.disabled = true;
  }
}

export function open() {
  return new Talk();
}
