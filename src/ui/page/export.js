// export.js: writes a model folder or a GGUF file from a run or one of its checkpoints.

import {button, fill, h, toggle} from './dom.js';
import {failureBox, notesList} from './failure.js';
import {bytes, count} from './format.js';
import {stream} from './requests.js';

const kTypes = ['q8_0', 'f16', 'bf16', 'f32'];

function labeled(id, label, control, help) {
  return h('div', {class: 'field'}, h('label', {'for': id}, label), control, help && h('p', {class: 'help'}, help));
}

export class Export {
  constructor(id) {
    this.id = id;
    this.step = h('select', {id: 'export-step'});
    this.form =
        h('select', {id: 'export-form', listen: {change: () => this.adjust()}},
          h('option', {value: 'gguf'}, 'GGUF file'), h('option', {value: 'folder'}, 'model folder'));
    this.type = h('select', {id: 'export-type'}, kTypes.map((type) => h('option', {value: type}, type)));
    this.typeField = labeled('export-type', 'type', this.type);
    this.to = h('input', {id: 'export-to', type: 'text', spellcheck: 'false', autocomplete: 'off'});
    this.merged = h('input', {type: 'checkbox', id: 'export-merged'});
    this.mergedField = h('label', {class: 'check', hidden: true}, this.merged, 'merge the adapter into its base');
    this.overwrite = h('input', {type: 'checkbox', id: 'export-overwrite'});
    this.control = h('button', {type: 'submit', class: 'primary', 'data-action': 'export-start'}, 'Export');
    this.body = h('div', {class: 'stack tight', 'aria-live': 'polite', 'data-name': 'exported'});
    this.element =
        h('section', {class: 'panel stack tight', id: 'export', hidden: true},
          h('div', {class: 'panel-head'}, h('h2', null, 'Export'),
            button('Close', 'close-export', () => toggle(this.element, false), {class: 'quiet right'})),
          h('form', {class: 'stack tight', listen: {submit: (event) => this.start(event)}},
            h('div', {class: 'fields'}, labeled('export-step', 'from', this.step),
              labeled('export-form', 'as', this.form), this.typeField, labeled('export-to', 'to', this.to)),
            h('div', {class: 'actions'}, this.mergedField, h('label', {class: 'check'}, this.overwrite, 'overwrite'),
              this.control)),
          this.body);
    this.typed = false;
    this.to.addEventListener('input', () => {
      this.typed = true;
    });
  }

  show() {
    toggle(this.element, true);
    this.element.scrollIntoView({block: 'nearest'});
    this.step.focus({preventScroll: true});
  }

  update(status, settings) {
    this.folder = status.folder;
    const steps = [...(status.checkpoints ?? [])].reverse();
    const key = `${steps.join()} ${status.has_final}`;
    if (this.key === key) return;
    this.key = key;
    const chosen = this.step.value;
    fill(
        this.step, h('option', {value: ''}, status.has_final ? 'final' : 'newest state'),
        steps.map((step) => h('option', {value: step}, `step ${count(step)}`)));
    this.step.value = steps.map(String).includes(chosen) ? chosen : '';
    this.merged.checked = Boolean(settings?.adapter);
    toggle(this.mergedField, settings?.adapter);
    this.adjust();
  }

  adjust() {
    const gguf = this.form.value === 'gguf';
    toggle(this.typeField, gguf);
    if (!this.typed) this.to.value = `${this.folder}${gguf ? '.gguf' : '-export'}`;
  }

  request() {
    const body = {to: this.to.value.trim(), merged: this.merged.checked, overwrite: this.overwrite.checked};
    if (this.step.value !== '') body.step = Number(this.step.value);
    if (this.form.value === 'gguf') body.type = this.type.value;
    return body;
  }

  async start(event) {
    event.preventDefault();
    const notes = [];
    this.control.disabled = true;
    this.control.setAttribute('aria-busy', 'true');
    fill(this.body, h('p', {class: 'busy'}, 'Writing'));
    const last = await stream(`/api/runs/${encodeURIComponent(this.id)}/export`, this.request(), (one) => {
      if (one.event !== 'note' && one.event !== 'warning') return;
      notes.push(one.text);
      fill(this.body, h('p', {class: 'busy'}, 'Writing'), notesList(notes.slice(-5)));
    });
    this.control.disabled = false;
    this.control.removeAttribute('aria-busy');
    fill(
        this.body,
        last.event === 'error' ? failureBox(last, {apply: (settings) => this.apply(settings)}) : this.done(last));
  }

  // Ways out that this form has a box for.
  apply(settings) {
    if ('overwrite' in settings) this.overwrite.checked = true;
  }

  done(last) {
    return h(
        'div', {class: 'message good', 'data-name': 'export-done'}, h('p', {class: 'title'}, 'Written'),
        h('p', null, h('code', null, last.folder ?? ''), `, ${bytes(last.bytes)}`,
          last.step !== undefined && `, of step ${count(last.step)}`,
          last.from && [', from ', h('code', null, last.from)]));
  }
}
