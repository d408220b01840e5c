// plan_panel.js: plans the draft, and shows what arrives: the plan, its lanes, other methods, faster settings.

import {button, fill, h, say, toggle} from './dom.js';
import {readDraft} from './draft.js';
import {failureBox, notesList} from './failure.js';
import {lanesFigure} from './lanes.js';
import {cheaperTable, methodsTable, planFigure} from './plan.js';
import {stream, wasAborted} from './requests.js';

const kCompareSeconds = 20;

function comparisonEnd(last) {
  if (last.event !== 'done') return null;
  const skipped = last.compared?.not_reached ?? [];
  return skipped.length > 0 ? h('p', {class: 'muted small'}, `Not reached in time: ${skipped.join('; ')}.`) : null;
}

export class PlanPanel {
  // `use({KEY: value})` changes the draft; `complain(error)` marks its fields.
  constructor(use, complain) {
    this.use = use;
    this.complain = complain;
    this.compare = h('input', {type: 'checkbox', id: 'compare', checked: true});
    this.machine = h('select', {id: 'machine', 'data-name': 'machine'}, h('option', {value: ''}, 'this machine'));
    this.cancel = button('Cancel', 'cancel-plan', () => this.abort?.abort(), {hidden: true, class: 'quiet'});
    this.status = h('p', {class: 'busy', 'data-name': 'plan-status', hidden: true, role: 'status'});
    this.stale =
        h('span', {class: 'muted small', 'data-name': 'stale', role: 'status', hidden: true}, 'of earlier settings');
    this.machine.addEventListener('change', () => this.compareDraft());
    this.body = h('div', {class: 'stack', id: 'plan', tabindex: -1, 'aria-label': 'Plan'});
    this.element =
        h('section', {class: 'panel plan-panel', 'aria-labelledby': 'plan-title'},
          h('div', {class: 'panel-head'}, h('h2', {id: 'plan-title'}, 'Plan'), this.status, this.stale, this.cancel,
            h('div', {class: 'right actions small'}, h('label', {class: 'check'}, this.compare, 'compare methods'),
              h('label', {class: 'check', 'for': 'machine'}, 'machine', this.machine))),
          this.body);
    this.showEmpty();
  }

  showMachines(names) {
    this.machine.append(...names.map((name) => h('option', {value: name}, name)));
  }

  showEmpty() {
    this.planned = '';
    toggle(this.stale, false);
    fill(
        this.body,
        h('p', {class: 'muted'},
          'Plan says whether the run fits, where its data is kept, how long a step takes ' +
              'and what it waits for. It trains nothing and reads no weights.'));
  }

  showError(error) {
    this.planned = '';
    fill(this.body, failureBox(error, {apply: this.use}));
    this.complain(error);
  }

  showNotes(notes, name) {
    if (notes.length === 1) this.reveal();
    fill(this.body, notesList(notes, name));
  }

  settings() {
    const {settings} = readDraft();
    return this.machine.value === '' ? settings : {...settings, machine: this.machine.value};
  }

  // Says so if the settings are not those of the plan any more.
  compareDraft() {
    toggle(this.stale, this.planned && this.planned !== JSON.stringify(this.settings()));
  }

  fade(faded) {
    this.body.classList.toggle('old', faded);
  }

  async plan(control) {
    this.abort?.abort();
    const abort = this.abort = new AbortController();
    const view = {notes: [], methods: [], cheaper: [], parts: {}};
    for (const name of ['notes', 'plan', 'lanes', 'methods', 'cheaper', 'end'])
      view.parts[name] = h('div', {class: 'part'});
    this.planned = JSON.stringify(this.settings());
    this.begin(control);
    let begun = false;
    try {
      const last = await stream(
          '/api/plan',
          {settings: this.settings(), compare_seconds: this.compare.checked ? kCompareSeconds : 0}, (event) => {
            if (!begun && event.event !== 'error') {
              begun = true;
              fill(this.body, Object.values(view.parts));
            }
            this.take(view, event);
          }, {signal: abort.signal});
      if (last.event === 'error')
        this.fail(view, last);
      else
        this.end(view, last);
    } catch (problem) {
      if (!wasAborted(problem)) throw problem;
      if (this.abort === abort) fill(view.parts.end, h('p', {class: 'muted small'}, 'Canceled.'));
    } finally {
      if (this.abort === abort) this.finish(control);
    }
  }

  begin(control) {
    control.setAttribute('aria-busy', 'true');
    toggle(this.cancel, true);
    toggle(this.status, true);
    fill(this.status, 'Planning');
    this.reveal();
    this.compareDraft();
    this.complain(null);
    this.fade(true);
  }

  // In a narrow window the plan is below the fields.
  reveal() {
    if (this.element.getBoundingClientRect().top > window.innerHeight * 0.8)
      this.element.scrollIntoView({block: 'start'});
  }

  finish(control) {
    control.removeAttribute('aria-busy');
    toggle(this.cancel, false);
    toggle(this.status, false);
    this.fade(false);
  }

  take(view, event) {
    if (event.event === 'note' || event.event === 'warning') {
      view.notes.push(event.text);
      fill(view.parts.notes, notesList(view.notes.slice(-6), 'plan-notes'));
    } else if (event.event === 'plan') {
      this.fade(false);
      fill(view.parts.notes);
      fill(view.parts.plan, planFigure(event));
      fill(this.status, this.compare.checked ? 'Comparing' : 'Drawing');
      say('The plan fits.');
    } else if (event.event === 'lanes') {
      fill(view.parts.lanes, lanesFigure(event));
    } else if (event.event === 'method') {
      view.methods.push(event);
      this.fillMethods(view);
    } else if (event.event === 'cheaper') {
      view.cheaper.push(event);
      fill(view.parts.cheaper, h('h3', null, 'Faster'), cheaperTable(view.cheaper, this.use));
    }
  }

  fillMethods(view, advised) {
    fill(view.parts.methods, h('h3', null, 'Methods'), methodsTable(view.methods, advised, this.use));
  }

  // What was found before an error stays.
  fail(view, error) {
    if (view.parts.plan.childElementCount === 0) return this.showError(error);
    fill(view.parts.end, failureBox(error, {apply: this.use}));
    this.complain(error);
  }

  end(view, last) {
    fill(view.parts.notes);
    if (view.methods.length > 0) this.fillMethods(view, last.advised);
    fill(view.parts.end, comparisonEnd(last));
  }
}
