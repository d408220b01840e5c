// new_run.js: writes the settings of a run, shows its rows and its plan, and starts it.

import {button, codeBox, fill, h, say, setText, toggle} from './dom.js';
import {clearDraft, draftText, kMainKeys, loadDraft, readDraft, setDraft, setDraftValues, watchDraft} from './draft.js';
import {failureBox} from './failure.js';
import {Field, FoldedFields} from './fields.js';
import {Inspected, modelButtons} from './model_choice.js';
import {PlanPanel} from './plan_panel.js';
import {errorOf, get, stream} from './requests.js';
import {DataChoices, Rows} from './rows.js';
import {commandOf, isKey, keysIn, loadKeys, yamlOf} from './settings.js';

export const title = 'New run';

const kPlaced = new Set(['model', 'train_data', 'eval_data']);  // in panels of their own
const kNowhere = new Set(['machine', 'resume']);                // of `plan` and of the button Resume

class NewRun {
  constructor() {
    this.yaml = codeBox('run.yaml', '');
    this.fileCommand = codeBox('command with run.yaml', 'windlass train run.yaml', {line: true});
    this.command = codeBox('command', '', {line: true});
    this.planButton = button('Plan', 'plan', () => this.plan());
    this.startButton = button('Start', 'start', () => this.start(), {class: 'primary'});
    this.problem = h('p', {class: 'problem', 'data-name': 'draft-problem', role: 'status', hidden: true});
    this.panel = new PlanPanel((values) => this.use(values), (error) => this.complain(error));
    this.fields = new Map();
    this.form = h('div', {class: 'stack form'}, h('p', {class: 'busy'}, 'Reading settings'));
    this.loader = h('select', {id: 'load-from', 'aria-label': 'Run whose settings to load'});
    this.loadRow = this.makeLoadRow();
    this.element =
        h('div', null, h('div', {class: 'page-head'}, h('h1', null, 'New run'), this.loadRow),
          h('div', {class: 'new-run'}, this.form,
            h('div', {class: 'output'}, this.makeBar(), this.makeOutput(), this.panel.element)));
    watchDraft((key) => this.changed(key));
    this.build();
  }

  makeLoadRow() {
    const load = button('Load settings', 'load', () => this.load(this.loader.value));
    const clear = button('Clear all', 'clear-all', () => clearDraft());
    return h(
        'div', {class: 'actions'}, h('span', {class: 'load', hidden: true, 'data-name': 'load'}, this.loader, load),
        clear);
  }

  // Always in sight: on top of the right column, or at the bottom of a narrow window.
  makeBar() {
    return h(
        'section', {class: 'panel run-bar', 'aria-label': 'Command'}, this.command.element,
        h('div', {class: 'actions'}, this.planButton, this.startButton), this.problem);
  }

  makeOutput() {
    return h(
        'section', {class: 'panel stack tight', 'aria-labelledby': 'output-title'},
        h('h2', {id: 'output-title'}, 'run.yaml'), this.yaml.element, this.fileCommand.element);
  }

  async build() {
    try {
      const [keys, places] = await Promise.all([loadKeys(), get('/api/places')]);
      this.makeForm(keys, places);
      this.panel.showMachines(places.machines ?? []);
      this.changed(null);
    } catch (problem) {
      fill(this.form, failureBox(errorOf(problem)), h('div', null, button('Try again', 'retry', () => this.build())));
    }
  }

  makeForm(keys, places) {
    const field = (key, options) => {
      const made = new Field(key, keys[key], options);
      this.fields.set(key, made);
      return made;
    };
    this.inspected = new Inspected();
    this.models = new Set(places.models.map((one) => one.model));
    this.rows = new Rows((values) => this.use(values));
    this.choices = new DataChoices();
    const model = field('model', {help: 'A folder, or the id of a model in the Hugging Face cache.'});
    model.control.setAttribute('list', 'models');
    const models = h('datalist', {id: 'models'}, places.models.map((one) => h('option', {value: one.model}, one.from)));
    const main = kMainKeys.filter((key) => !kPlaced.has(key) && keys[key]).map((key) => field(key));
    this.folded = new FoldedFields(keys, new Set([...kMainKeys, ...kNowhere]));
    fill(
        this.form, panel('Model', model.element, models, this.inspected.element, this.modelList(places.models)),
        panel(
            'Rows', h('div', {class: 'fields two'}, field('train_data').element, field('eval_data').element),
            this.choices.element, this.rows.element),
        panel('Settings', h('div', {class: 'fields'}, main.map((one) => one.element))),
        panel('All settings', this.folded.element));
    this.choices.show(places.data ?? []);
    model.control.addEventListener('change', () => this.inspect(false));
  }

  // Bases before what runs have made of them.
  modelList(models) {
    if (models.length === 0)
      return h(
          'p', {class: 'muted small'}, 'There is no model here yet. This gets one: ',
          h('code', null, 'hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B'));
    const isMade = ({model}) => /\/(final|checkpoint-\d+\/model|export-\d+)$/.test(model);
    const ordered = [...models.filter((one) => !isMade(one)), ...models.filter(isMade)];
    const list =
        h('details', {class: 'fold', open: draftText('model') === ''}, h('summary', null, 'Models here'),
          modelButtons(ordered, (name) => {
            list.open = false;
            setDraft('model', name);
            this.field('model').control.focus();
          }));
    return list;
  }

  field(key) {
    return this.fields.get(key) ?? this.folded?.fields.get(key);
  }

  everyField() {
    return [...this.fields.values(), ...(this.folded?.fields.values() ?? [])];
  }

  // After each change of the draft.
  changed(key) {
    if (!this.folded) return;
    for (const field of key === null ? this.everyField() : [this.field(key)].filter(Boolean)) field.sync();
    if (key === null || key === 'train_data') this.choices.sync();
    if (key === null || key === 'model') this.inspect(key !== null);
    const {settings, problems} = readDraft();
    for (const field of key === null ? this.everyField() : [this.field(key)].filter(Boolean))
      field.complain(problems[field.key]);
    this.folded.count();
    this.panel.compareDraft();
    this.showOutput(settings, Object.keys(problems));
  }

  // A name that is being typed is inspected once it is whole.
  inspect(typing) {
    const model = draftText('model').trim();
    if (typing && !this.models.has(model))
      this.inspected.clear();
    else
      this.inspected.show(model);
  }

  showOutput(settings, problems) {
    this.yaml.set(yamlOf(settings) || '# Nothing is set yet.\n');
    this.command.set(commandOf('train', settings));
    setText(this.problem, problems.length > 0 ? `Not a value yet: ${problems.join(', ')}` : '');
    toggle(this.problem, problems.length > 0);
  }

  use(values) {
    setDraftValues(Object.fromEntries(Object.entries(values).filter(([key]) => isKey(key))));
    this.plan();
  }

  // Marks the fields that an error names; null takes the marks away.
  complain(error) {
    const {settings, problems} = readDraft();
    const named = error ? keysIn(error, settings) : new Map();
    for (const field of this.everyField()) field.complain(problems[field.key] ?? named.get(field.key));
    const first = [...named.keys()].find((key) => this.field(key));
    if (first === undefined) return;
    this.folded.reveal(first);
    this.field(first).element.scrollIntoView({block: 'nearest'});
  }

  plan() {
    return this.panel.plan(this.planButton);
  }

  async start() {
    const {settings} = readDraft();
    const notes = [];
    this.panel.abort?.abort();
    this.complain(null);
    this.startButton.disabled = true;
    this.startButton.setAttribute('aria-busy', 'true');
    try {
      const last = await stream('/api/runs', {settings}, (event) => {
        if (event.event === 'note' || event.event === 'warning') {
          notes.push(event.text);
          this.panel.showNotes(notes.slice(-8), 'start-notes');
        }
      }, {ends: ['run', 'done', 'error']});
      if (last.event === 'error') return this.panel.showError(last);
      say('The run has started.');
      location.hash = `#/run/${encodeURIComponent(last.run_id)}`;
      this.panel.showEmpty();
    } finally {
      this.startButton.disabled = false;
      this.startButton.removeAttribute('aria-busy');
    }
  }

  async listRuns() {
    try {
      const {runs} = await get('/api/runs');
      this.folders = runs.map((status) => status.folder);
      const chosen = this.loader.value;
      fill(this.loader, runs.map((status) => h('option', {value: status.run_id}, status.folder)));
      if (chosen) this.loader.value = chosen;
      toggle(this.loader.parentElement, runs.length > 0);
    } catch {
      // The banner says why.
    }
  }

  async load(id) {
    try {
      const {settings} = await get(`/api/runs/${encodeURIComponent(id)}`);
      await loadDraft(settings, this.folders ?? []);
      say('The settings are loaded.');
    } catch (problem) {
      this.panel.showError(errorOf(problem));
    }
  }

  async enter(id) {
    await this.listRuns();
    if (!id) return;
    history.replaceState(null, '', '#/new');
    await this.load(id);
  }
}

function panel(name, ...children) {
  const id = `panel-${name.toLowerCase().replaceAll(' ', '-')}`;
  return h('section', {class: 'panel stack tight', 'aria-labelledby': id}, h('h2', {id}, name), children);
}

export function open() {
  return new NewRun();
}
