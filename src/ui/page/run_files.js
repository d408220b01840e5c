// run_files.js: what a run's files say so far, read further with each call. One object per run, shared by the views.

import {getFile, parseLine} from './requests.js';
import {Series} from './series.js';

const kChunkBytes = 1 << 20;
const kLogBytes = 64 << 10;
const kKeptSamples = 5000;

const files = new Map();

export function filesOf(id) {
  if (!files.has(id)) files.set(id, new RunFiles(id));
  return files.get(id);
}

class RunFiles {
  constructor(id) {
    this.id = id;
    this.series = new Series();
    this.events = [];
    this.samples = [];
    this.log = '';
    this.next = {metrics: 0, events: 0, samples: 0};
    this.logNext = null;
    this.reading = new Map();
  }

  clear(file) {
    if (file === 'metrics')
      this.series.clear();
    else
      this[file] = [];
  }

  take(file, line) {
    if (file === 'metrics')
      this.series.add(line);
    else if (file === 'events')
      this.events.push(line);
    else
      this.takeSample(line);
  }

  // Samples of a step come again if the run was resumed before it.
  takeSample(line) {
    const lastStep = this.samples.at(-1)?.step ?? -1;
    if (line.step < lastStep) this.samples = this.samples.filter((sample) => sample.step < line.step);
    this.samples.push(line);
    if (this.samples.length > kKeptSamples) this.samples.shift();
  }

  // Reads metrics, events or samples to their end. True if there was something new. Callers share one reader.
  read(file, options) {
    if (!this.reading.has(file))
      this.reading.set(file, this.readOn(file, options).finally(() => this.reading.delete(file)));
    return this.reading.get(file);
  }

  async readOn(file, options) {
    let changed = false;
    for (;;) {
      const from = this.next[file];
      const {text, start, next} = await getFile(this.id, file, from, options);
      if (start < from) {
        this.clear(file);
        changed = true;
      }
      for (const part of text.split('\n')) {
        const line = part && parseLine(part);
        if (line) this.take(file, line);
      }
      this.next[file] = next;
      changed = changed || next > start;
      // A long answer may have been cut at the server's limit.
      if (next - start < kChunkBytes / 2 || next === from) return changed;
    }
  }

  // The last 64 KiB of the log, and what is added to it.
  async readLog(options) {
    const from = this.logNext ?? -kLogBytes;
    const {text, start, next} = await getFile(this.id, 'log', from, options);
    const again = this.logNext === null || start !== this.logNext;
    this.log = again ? text : this.log + text;
    if (this.log.length > 2 * kLogBytes) this.log = this.log.slice(-kLogBytes);
    this.logNext = next;
    return again || text.length > 0;
  }
}
