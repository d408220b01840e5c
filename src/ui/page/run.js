// run.js: one run: its state and numbers, curves, what it has written, and what may be asked of it. Files are read once
// a second while it trains.

import {button, facts, fill, h, refill, say, setText, toggle} from './dom.js';
import {Export} from './export.js';
import {failureBox, notesList} from './failure.js';
import {errorOf, get} from './requests.js';

import {ago, bytes, count, loss, percent, seconds, short, width} from './format.js';
import {planFigure} from './plan.js';
import {Poll} from './poll.js';
import {resumeRun, saveRun, stopRun} from './run_actions.js';
import {Overlays, RunCurves} from './run_curves.js';
import {filesOf} from './run_files.js';
import {checkpointTable, endOf, lastEvent, Log, nextCommands, Samples, Yaml} from './run_parts.js';
import {modelOfRun, progressOf} from './runs.js';

export const title = 'Run';

const kBusyMs = 1000;
const kIdleMs = 5000;
const kListMs = 10000;
const kAskedMs = 8000;

class Run {
  constructor(id, overlays, wantsExport) {
    this.id = id;
    this.files = filesOf(id);
    this.overlayIds = overlays;
    this.wantsExport = wantsExport;
    this.makeHead();
    this.makeBody();
    this.element = h('div', {class: 'run-view stack', 'data-run': id}, this.head, this.message, this.wait, this.body);
    this.poll = new Poll(() => this.refresh());
  }

  makeHead() {
    this.name = h('h1', {class: 'foreign'}, 'Run');
    this.state = h('span', {class: 'badge', 'data-name': 'state', role: 'status'});
    this.asked = h('span', {class: 'muted small', role: 'status', 'data-name': 'asked'});
    this.buttons = {
      stop: button('Stop', 'stop', () => this.ask(stopRun, 'Stopping after this step')),
      save: button('Save', 'save', () => this.ask(saveRun, 'Saving after this step')),
      resume: button('Resume', 'resume', () => this.ask(resumeRun, 'Resuming'), {class: 'primary'}),
      talk: h('a', {class: 'button', 'data-action': 'talk'}, 'Talk'),
      export: button('Export', 'export', () => this.exporter.show()),
      again:
          h('a', {class: 'button', 'data-action': 'again', href: `#/new/${encodeURIComponent(this.id)}`},
            'New run from these settings'),
    };
    for (const control of Object.values(this.buttons)) control.hidden = true;
    this.head =
        h('div', {class: 'page-head'}, this.name, this.state, this.asked,
          h('div', {class: 'actions'}, Object.values(this.buttons)));
  }

  makeBody() {
    this.message = h('div', {class: 'stack tight'});
    this.wait = h('p', {class: 'busy'}, 'Reading the run');
    this.bar = h('div');
    this.numbers = h('div');
    this.curves = new RunCurves();
    this.overlays = new Overlays(this.id, this.overlayIds, (ids) => this.overlay(ids));
    this.checkpoints = h('div');
    this.next = h('div');
    this.samples = new Samples();
    this.log = new Log(() => this.readLog());
    this.yaml = new Yaml();
    this.plan = h('details', {class: 'panel fold', 'data-name': 'run-plan', hidden: true}, h('summary', null, 'Plan'));
    this.exporter = new Export(this.id);
    this.body =
        h('div', {class: 'stack', hidden: true},
          h('section', {class: 'panel stack tight', 'aria-label': 'Progress'},
            h('div', {class: 'progress run-progress', 'aria-hidden': 'true'}, this.bar), this.numbers),
          this.exporter.element,
          h('section', {class: 'panel'},
            h('div', {class: 'panel-head'}, h('h2', null, 'Curves'), this.overlays.element,
              h('div', {class: 'right'}, this.curves.controls)),
            this.curves.element),
          h('div', {class: 'run-parts'}, h('section', {class: 'panel'}, h('h2', null, 'Checkpoints'), this.checkpoints),
            this.samples.element),
          this.next, this.plan, this.log.element, this.yaml.element);
  }

  async refresh() {
    const [{status, settings, yaml}, moved] = await this.readAll();
    this.wait.hidden = true;
    this.body.hidden = false;
    this.status = status;
    this.showStatus(status);
    this.exporter.update(status, settings);
    this.yaml.show(yaml ?? '');
    if (moved) this.showFiles(status);
    if (this.log.isOpen) await this.readLog();
    await this.readOthers();
    if (this.wantsExport) {
      this.wantsExport = false;
      this.exporter.show();
    }
    return status.state === 'training' ? kBusyMs : kIdleMs;
  }

  async readAll() {
    try {
      const about = await get(`/api/runs/${encodeURIComponent(this.id)}`);
      const changes = await Promise.all(['metrics', 'events', 'samples'].map((file) => this.files.read(file)));
      const state = `${about.status.state} ${about.status.step} ${(about.status.checkpoints ?? []).join()} ${
          about.status.has_final}`;
      const moved = changes.some(Boolean) || state !== this.shownState;
      this.shownState = state;
      return [about, moved];
    } catch (problem) {
      if (this.status === undefined) {
        this.wait.hidden = true;
        fill(this.message, failureBox(errorOf(problem)));
      }
      throw problem;
    }
  }

  showStatus(status) {
    if (this.lastState !== undefined && this.lastState !== status.state) {
      say(`The run is ${status.state}.`);
      setText(this.asked, '');
    }
    this.lastState = status.state;
    const training = status.state === 'training';
    setText(this.name, status.folder);
    setText(this.state, status.state);
    this.state.className = `badge ${status.state}`;
    document.title = `${training ? `${percent(progressOf(status))} · ` : ''}${status.folder} · Windlass`;
    this.bar.style.width = width(progressOf(status));
    this.body.className = `stack ${status.state}`;
    refill(this.numbers, JSON.stringify(status) + ago(status.updated), () => this.facts(status, training));
    const model = modelOfRun(status);
    toggle(this.buttons.stop, training);
    toggle(this.buttons.save, training);
    toggle(this.buttons.resume, !training && status.state !== 'done');
    toggle(this.buttons.talk, model !== null);
    this.buttons.talk.href = `#/talk/${encodeURIComponent(model ?? '')}`;
    toggle(this.buttons.export, model !== null || training);
    toggle(this.buttons.again, true);
  }

  facts(status, training) {
    const measured = this.files.series.last('tokens_total');
    return facts([
      [
        'step',
        [
          count(status.step ?? 0), ' ',
          status.total_steps > 0 && h('small', null, `of ${count(status.total_steps)}, ${percent(progressOf(status))}`)
        ],
        'step'
      ],
      ['loss', loss(status.loss), 'loss'],
      status.eval_loss !== undefined && ['evaluation', loss(status.eval_loss), 'eval-loss'],
      training ? ['time left', seconds(status.eta_seconds), 'eta'] : ['last step', ago(status.updated), 'updated'],
      [
        'a step',
        [
          seconds(status.step_seconds), ' ',
          status.predicted_seconds > 0 && h('small', null, `${seconds(status.predicted_seconds)} predicted`)
        ],
        'step-seconds'
      ],
      ['tokens/s', short(status.tokens_per_second), 'tokens-per-second'],
      measured > 0 && ['tokens', count(measured)],
      [
        'memory',
        [
          bytes(status.ram_bytes), ' ',
          status.planned_bytes > 0 && h('small', null, `${bytes(status.planned_bytes)} planned`)
        ],
        'memory-bytes'
      ],
    ]);
  }

  showFiles(status) {
    const {events, series, samples} = this.files;
    this.drawCurves();
    this.samples.show(samples);
    const saved = JSON.stringify([status.checkpoints, status.has_final, events.length]);
    refill(this.checkpoints, saved, () => checkpointTable(status, events, series));
    const end = `${status.state} ${events.length}`;
    refill(this.message, end, () => [endOf(status, events), this.warnings()]);
    refill(this.next, end, () => status.state === 'done' ? nextCommands(events) : null);
    const plan = lastEvent(events, ['plan']);
    if (plan && plan !== this.shownPlan) {
      this.shownPlan = plan;
      this.plan.hidden = false;
      fill(this.plan, this.plan.firstElementChild, planFigure(plan));
    }
  }

  warnings() {
    const texts =
        [...new Set(this.files.events.filter((event) => event.event === 'warning').map((event) => event.text))];
    return texts.length === 0 ? null :
                                h('details', {class: 'message warn fold', 'data-name': 'warnings'},
                                  h('summary', null, `Warnings: ${texts.length}`), notesList(texts.slice(-20)));
  }

  drawCurves() {
    const others = this.overlayIds.map(
        (id) => ({status: this.all?.find((one) => one.run_id === id) ?? {folder: id}, series: filesOf(id).series}));
    this.curves.show([{status: this.status, series: this.files.series}, ...others]);
  }

  // The list of other runs, now and then; the numbers of those that are laid over.
  async readOthers() {
    if (!this.all || Date.now() - this.listedAt > kListMs) {
      this.all = (await get('/api/runs')).runs;
      this.listedAt = Date.now();
      this.overlays.show(this.all);
      this.mustDraw ||= this.overlayIds.length > 0;  // now their names are known
    }
    const changes =
        await Promise.all(this.movingOverlays().map((id) => filesOf(id).read('metrics').catch(() => false)));
    if (changes.some(Boolean) || this.mustDraw) this.drawCurves();
    this.mustDraw = false;
  }

  // Those that train, and those that were not read yet.
  movingOverlays() {
    const trains = (id) => this.all.some((one) => one.run_id === id && one.state === 'training');
    return this.overlayIds.filter((id) => filesOf(id).series.length === 0 || trains(id));
  }

  overlay(ids) {
    this.overlayIds = ids;
    this.mustDraw = true;
    history.replaceState(null, '', `#/run/${[this.id, ...ids].map(encodeURIComponent).join('+')}`);
    this.drawCurves();
    this.poll.now();
  }

  async readLog() {
    try {
      if (await this.files.readLog() || this.log.text.textContent === '') this.log.show(this.files.log);
    } catch {
      // The next poll tries again.
    }
  }

  async ask(action, words) {
    setText(this.asked, words);
    const error = await action(this.id);
    if (error) {
      setText(this.asked, '');
      fill(this.message, failureBox(error));
    } else if (action !== stopRun) {
      setTimeout(() => setText(this.asked, ''), kAskedMs);
    }
    this.poll.now();
  }

  enter() {
    this.poll.start();
  }

  leave() {
    this.poll.stop();
    this.curves.close();
  }
}

// ID, ID+ID2 with others laid over it.
export function open(argument, more) {
  const [id, ...overlays] = argument.split('+');
  return new Run(id, overlays, more === 'export');
}
