// series.js: the numbers of a run by step, and fewer points to draw.

import {isNumber, number} from './format.js';

const kDrawnPoints = 1500;

// Columns of the lines of metrics.jsonl. A column is as long as `steps`; NaN where a line lacks the key.
export class Series {
  constructor() {
    this.clear();
  }

  clear() {
    this.steps = [];
    this.columns = new Map();
  }

  get length() {
    return this.steps.length;
  }

  // A step that is not after the last one: the run was resumed from an earlier step.
  add(line) {
    const step = number(line.step);
    if (!Number.isFinite(step)) return;
    while (this.length > 0 && this.steps[this.length - 1] >= step) this.pop();
    for (const [key, value] of Object.entries(line))
      if (key !== 'step' && isNumber(value) && !this.columns.has(key))
        this.columns.set(key, new Array(this.length).fill(NaN));
    this.steps.push(step);
    for (const [key, column] of this.columns) column.push(number(line[key]));
  }

  pop() {
    this.steps.pop();
    for (const column of this.columns.values()) column.pop();
  }

  has(key) {
    return this.columns.has(key);
  }

  last(key) {
    const column = this.columns.get(key);
    return column === undefined || column.length === 0 ? NaN : column[column.length - 1];
  }

  // Finite values as {x: step, y: value}.
  points(key) {
    const column = this.columns.get(key);
    const points = [];
    if (!column) return points;
    for (let i = 0; i < column.length; ++i)
      if (Number.isFinite(column[i])) points.push({x: this.steps[i], y: column[i]});
    return points;
  }
}

// The running mean of TensorBoard: weights fall by `factor` a point, and sum up to one from the first point on.
export function smoothed(points, factor) {
  let sum = 0, weight = 0;
  return points.map(({x, y}) => {
    sum = sum * factor + y * (1 - factor);
    weight = weight * factor + (1 - factor);
    return {x, y: sum / weight};
  });
}

// Means of at most `limit` buckets of equal length.
export function averaged(points, limit = kDrawnPoints) {
  if (points.length <= limit) return points;
  const means = [];
  for (let bucket = 0; bucket < limit; ++bucket) {
    const part =
        points.slice(Math.floor((bucket * points.length) / limit), Math.floor(((bucket + 1) * points.length) / limit));
    means.push({x: part.at(-1).x, y: part.reduce((sum, {y}) => sum + y, 0) / part.length});
  }
  return means;
}

// At most `limit` points: of each bucket the lowest and the highest, in their order, so that peaks stay.
export function thinned(points, limit = kDrawnPoints) {
  if (points.length <= limit) return points;
  const buckets = Math.floor(limit / 2);
  const kept = [];
  for (let bucket = 0; bucket < buckets; ++bucket) {
    const begin = Math.floor((bucket * points.length) / buckets);
    const end = Math.floor(((bucket + 1) * points.length) / buckets);
    let low = begin, high = begin;
    for (let i = begin + 1; i < end; ++i) {
      if (points[i].y < points[low].y) low = i;
      if (points[i].y > points[high].y) high = i;
    }
    kept.push(points[Math.min(low, high)]);
    if (low !== high) kept.push(points[Math.max(low, high)]);
  }
  kept[0] = points[0];
  kept[kept.length - 1] = points[points.length - 1];
  return kept;
}
