// lanes.js: the lanes of a step as a timeline: a box for each task, colored by kind, and a table of busy seconds.

import {h, s, table} from './dom.js';
import {percent, seconds} from './format.js';

const kWidth = 1000;
const kLaneHeight = 20;
const kColors = 12;
const kTicks = 4;

// The first word of a task's name, where it has no kind.
function kindOf(task) {
  return task.kind ?? String(task.name).split(' ')[0];
}

function kindsOf(lanes) {
  const total = new Map();
  for (const {tasks} of lanes)
    for (const task of tasks) total.set(kindOf(task), (total.get(kindOf(task)) ?? 0) + task.seconds);
  return [...total.entries()].sort((a, b) => b[1] - a[1]);
}

export function busySeconds(tasks) {
  return tasks.reduce((sum, task) => sum + task.seconds, 0);
}

function taskBox(task, scale, color) {
  const box = s('rect', {
    x: (task.start * scale).toFixed(2),
    y: 1,
    width: Math.max(0.6, task.seconds * scale).toFixed(2),
    height: kLaneHeight - 2,
    class: `fill${color}`
  });
  box.append(s('title', null, `${task.name}: ${seconds(task.seconds)}, from ${seconds(task.start)}`));
  return box;
}

function laneRow(lane, scale, colors) {
  const strip =
      s('svg',
        {class: 'lane', viewBox: `0 0 ${kWidth} ${kLaneHeight}`, preserveAspectRatio: 'none', 'aria-hidden': 'true'},
        lane.tasks.map((task) => taskBox(task, scale, colors.get(kindOf(task)))));
  return [h('span', {class: 'lane-name'}, lane.lane), strip];
}

function axis(total) {
  const ticks =
      Array.from({length: kTicks + 1}, (_, i) => h('span', null, i === 0 ? '0' : seconds((total * i) / kTicks)));
  return [h('span'), h('div', {class: 'lane-axis', 'aria-hidden': 'true'}, ticks)];
}

function legend(kinds, colors) {
  return h(
      'ul', {class: 'legend'},
      kinds.slice(0, 24).map(
          ([kind, busy]) =>
              h('li', null, h('span', {class: `swatch back${colors.get(kind)}`}), h('bdi', null, kind),
                h('span', {class: 'muted'}, seconds(busy)))));
}

function busyTable(lanes, total) {
  return table(
      'busy',
      [
        {head: 'lane', cell: (lane) => lane.lane},
        {head: 'busy', n: true, cell: (lane) => seconds(busySeconds(lane.tasks))},
        {head: 'of the step', n: true, cell: (lane) => percent(busySeconds(lane.tasks) / total)},
        {head: 'tasks', n: true, cell: (lane) => String(lane.tasks.length)},
      ],
      lanes, {caption: 'Busy seconds of each lane'});
}

// Of the event `lanes`.
export function lanesFigure(event) {
  const lanes = (event.lanes ?? []).filter((lane) => lane.tasks?.length > 0);
  const end = Math.max(
      event.seconds ?? 0,
      ...lanes.map((lane) => lane.tasks.reduce((last, task) => Math.max(last, task.start + task.seconds), 0)));
  const total = end || 1;
  const kinds = kindsOf(lanes);
  const colors = new Map(kinds.map(([kind], i) => [kind, i % kColors]));
  return h(
      'figure', {class: 'lanes', 'data-name': 'lanes'}, h('figcaption', null, event.title ?? 'step'),
      h('div', {class: 'lane-grid'}, lanes.map((lane) => laneRow(lane, kWidth / total, colors)), axis(total)),
      legend(kinds, colors),
      h('details', {class: 'fold'}, h('summary', null, 'Busy seconds of each lane'), busyTable(lanes, total)));
}
