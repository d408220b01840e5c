// chat.js: one model that is talked with: its process on the server, and the column of questions and answers.

import {fill, h, longText, say, setText} from './dom.js';
import {failureBox, notesList} from './failure.js';
import {errorOf, post, remove, stream, wasAborted} from './requests.js';

import {count, seconds, short} from './format.js';

function pace(answer) {
  const rate = answer.decode_seconds > 0 ? `${short(answer.tokens / answer.decode_seconds, 3)} tokens/s` : '';
  const ends = {length: 'ended at its maximum of tokens', interrupt: 'stopped'};
  return [
    `${count(answer.tokens)} tokens`, rate, answer.prefill_seconds > 0 && `${seconds(answer.prefill_seconds)} to read`,
    ends[answer.ended_by]
  ].filter(Boolean)
      .join(' · ');
}

export class Chat {
  constructor(settings, slot) {
    this.settings = settings;
    this.id = null;
    this.state = 'new';  // new, loading, ready, answering, failed
    this.status =
        h('span', {class: 'muted small', role: 'status', 'data-name': 'chat-status'}, 'loads with the first question');
    this.turns = h('div', {
      class: 'turns',
      tabindex: 0,
      role: 'log',
      'aria-live': 'off',
      'aria-label': `Conversation with ${settings.model}`
    });
    this.element =
        h('section', {class: 'panel chat', 'data-slot': slot},
          h('header', {class: 'panel-head'}, h('h2', {class: 'foreign'}, settings.model), this.status), this.turns);
  }

  add(...nodes) {
    this.turns.append(...nodes);
    this.turns.scrollTop = this.turns.scrollHeight;
  }

  setState(state, words) {
    this.state = state;
    setText(this.status, words ?? {ready: 'ready', answering: 'answering', failed: 'not loaded'}[state] ?? '');
    this.status.classList.toggle('busy', state === 'loading' || state === 'answering');
  }

  // True if the model is loaded. Loads it if it is not.
  async load() {
    if (this.state === 'ready' || this.state === 'answering') return true;
    this.setState('loading', 'loading');
    const notes = h('div');
    this.add(notes);
    const texts = [];
    const last = await stream('/api/chats', this.settings, (event) => {
      if (event.event === 'chat') this.id = event.id;
      if (event.event !== 'note' && event.event !== 'warning') return;
      texts.push(event.text);
      fill(notes, notesList(texts.slice(-4)));
    }, {ends: ['ready', 'error']});
    if (this.state !== 'loading') return false;  // canceled
    if (last.event === 'error') return this.fail(last);
    notes.remove();
    this.setState('ready');
    return true;
  }

  // The server ends conversations that are idle.
  fail(error) {
    this.id = null;
    this.setState('failed');
    const over = error.status === 404;
    this.add(failureBox(
        over ? {kind: 'Ended', text: 'This conversation is over. The next question begins another.'} : error));
    return false;
  }

  async ask(question) {
    this.add(h('div', {class: 'turn question', 'data-role': 'user'}, h('pre', null, longText(question))));
    if (!await this.load()) return;
    const text = h('pre', null), rate = h('p', {class: 'muted small', 'data-name': 'pace'});
    const turn = h('div', {class: 'turn answer', 'data-role': 'assistant', 'data-done': 'false'}, text, rate);
    this.add(turn);
    this.setState('answering');
    let answer = '';
    const last = await stream(`/api/chats/${this.id}`, {content: question}, (event) => {
      if (event.event !== 'text') return;
      answer += event.delta;
      fill(text, longText(answer));
      this.turns.scrollTop = this.turns.scrollHeight;
    }, {ends: ['answer', 'refused', 'error', 'done']});
    turn.dataset.done = 'true';
    this.finish(last, text, rate);
  }

  finish(last, text, rate) {
    if (last.event === 'answer') {
      fill(text, longText(last.content ?? ''));
      if (!last.content) fill(rate, 'an empty answer · ');
      rate.append(pace(last));
      this.setState('ready');
      say('Answered.');
    } else if (last.event === 'refused') {
      this.add(failureBox(last));
      this.setState('ready');
    } else if (last.event === 'done') {
      this.fail({kind: 'internal', text: 'The process of this model has ended.', tries: []});
    } else {
      this.fail(last);
    }
    this.turns.scrollTop = this.turns.scrollHeight;
  }

  cancel() {
    this.close();
    this.add(h('p', {class: 'muted small'}, 'Loading was stopped.'));
  }

  async interrupt() {
    if (this.state === 'loading') return this.cancel();
    if (this.id === null || this.state !== 'answering') return;
    try {
      await post(`/api/chats/${this.id}/interrupt`, {});
    } catch (problem) {
      if (!wasAborted(problem)) this.add(failureBox(errorOf(problem)));
    }
  }

  // Forgets the conversation; the model stays loaded.
  async reset() {
    fill(this.turns);
    if (this.id === null) return;
    const last = await stream(
        `/api/chats/${this.id}`, {command: 'reset'}, () => {}, {ends: ['obeyed', 'refused', 'error', 'done']});
    if (last.event !== 'obeyed') this.fail(last);
  }

  // Ends the process on the server, also while the page is being left.
  close() {
    const id = this.id;
    this.id = null;
    this.setState('new', '');
    if (id !== null) remove(`/api/chats/${id}`, {keepalive: true}).catch(() => {});
  }
}
