// model_choice.js: models to choose from, and what `inspect` says of one.

import {button, facts, fill, h} from './dom.js';
import {failureBox, notesList} from './failure.js';
import {bytes, count, parameters} from './format.js';
import {errorOf, post, wasAborted} from './requests.js';

function templateText(template) {
  if (typeof template === 'string') return template || 'none';
  return template ? 'yes' : 'none';
}

function modelFacts(model) {
  if (!model.supported)
    return h(
        'div', {class: 'message bad'}, h('p', {class: 'title'}, `${model.model_type ?? 'This model'} is not supported`),
        h('p', {class: 'foreign'}, model.problem ?? ''));
  return h(
      'div', {class: 'stack tight'},
      facts(
          [
            ['family', model.family, 'family'],
            ['parameters', parameters(model.parameters), 'parameters'],
            ['layers', count(model.blocks)],
            ['width', count(model.hidden)],
            ['vocabulary', count(model.vocab)],
            ['positions', count(model.context_length)],
            ['files', bytes(model.bytes)],
            ['chat template', templateText(model.chat_template)],
          ],
          {class: 'facts dense'}),
      model.tokenizer_problem && h('p', {class: 'problem foreign'}, model.tokenizer_problem),
      model.notes?.length > 0 && notesList(model.notes));
}

// Models as {model, from}, each a button that calls `pick(model)`.
export function modelButtons(models, pick) {
  return h(
      'ul', {class: 'choices', 'data-name': 'models'},
      models.slice(0, 200).map(
          ({model, from}) =>
              h('li', null, button(model, 'pick', () => pick(model), {class: 'quiet', 'data-model': model}),
                h('span', {class: 'muted small'}, from))));
}

// Shows the model again if its name has changed.
export class Inspected {
  constructor() {
    this.element = h('div', {id: 'inspected', 'aria-live': 'polite'});
    this.shown = '';
  }

  clear() {
    this.shown = '';
    this.abort?.abort();
    fill(this.element);
  }

  async show(model) {
    if (model === this.shown) return;
    this.clear();
    if (model === '') return;
    this.shown = model;
    this.abort = new AbortController();
    fill(this.element, h('p', {class: 'busy'}, 'Inspecting'));
    try {
      const found = await post('/api/inspect', {model}, {signal: this.abort.signal});
      if (model === this.shown) fill(this.element, modelFacts(found));
    } catch (problem) {
      if (wasAborted(problem) || model !== this.shown) return;
      this.shown = '';
      fill(this.element, failureBox(errorOf(problem)));
    }
  }
}
