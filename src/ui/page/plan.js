// plan.js: a plan in pictures and words: who takes how much of which tier, how long a step takes and why, other
// methods, and settings that would be faster.

import {button, facts, h, table} from './dom.js';
import {notesList} from './failure.js';
import {bytes, count, parameters, percent, seconds, short, width} from './format.js';

const kColors = 12;
const kFullBar = 0.25;  // a peak below this share of its limit gets a bar of its own scale

const kTiers = [
  {name: 'device', head: 'Device', key: 'device_bytes', limit: 'device_limit_bytes'},
  {name: 'memory', head: 'Memory', key: 'memory_bytes', limit: 'memory_limit_bytes'},
  {name: 'disk', head: 'Disk', key: 'disk_bytes', limit: 'disk_limit_bytes'},
];

function usedTiers(plan) {
  return kTiers.filter((tier) => plan[tier.key] > 0);
}

function segment(row, tier, index, scale) {
  const size = row[tier.key];
  if (!(size > 0)) return null;
  return h(
      'div', {
        class: `segment back${index % kColors}`,
        css: {'flex-basis': `${(size / scale) * 100}%`},
        title: `${row.owner}: ${bytes(size)}`,
        'data-owner': row.owner
      },
      size / scale > 0.1 ? h('span', null, row.owner) : null);
}

function tierBar(plan, tier) {
  const peak = plan[tier.key], limit = plan[tier.limit];
  const limited = limit > 0;
  const toLimit = limited && peak / limit >= kFullBar;
  const scale = toLimit ? Math.max(limit, peak) : peak;
  const by = tier.name === 'memory' && plan.memory_limited_by ? ` (${plan.memory_limited_by})` : '';
  const words =
      limited ? `${bytes(peak)} of ${bytes(limit)}${by}, ${percent(peak / limit)}` : `${bytes(peak)}, no limit`;
  return h(
      'div', {class: 'tier', 'data-name': `tier-${tier.name}`},
      h('p', null, h('strong', null, tier.head), ' ', h('span', {class: 'num'}, words),
        !toLimit && limited && h('span', {class: 'muted small'}, ' · bar: the peak')),
      h('div', {class: 'bar', role: 'img', 'aria-label': `${tier.head}: ${words}`},
        plan.placement.map((row, i) => segment(row, tier, i, scale))));
}

// The legend of the bars, with every number.
function placementTable(plan) {
  const tiers = usedTiers(plan);
  const columns = [
    {
      head: 'owner',
      cell: (row) => [h('span', {class: `swatch back${row.index % kColors}`}), h('bdi', null, row.owner)]
    },
    ...tiers.map(
        (tier) => ({head: tier.name, n: true, cell: (row) => (row[tier.key] > 0 ? bytes(row[tier.key]) : '–')})),
  ];
  const rows =
      plan.placement.map((row, index) => ({...row, index})).filter((row) => tiers.some((tier) => row[tier.key] > 0));
  return table('placement', columns, rows, {caption: 'Bytes of each owner at the peak'});
}

function laneSeconds(step) {
  const lanes = [
    ['compute', step.compute_seconds], ['updates', step.host_seconds], ['up', step.up_seconds, step.up_bytes],
    ['down', step.down_seconds, step.down_bytes], ['disk reads', step.disk_read_seconds, step.disk_read_bytes],
    ['disk writes', step.disk_write_seconds, step.disk_write_bytes]
  ];
  return lanes.filter(([, busy]) => busy > step.seconds * 1e-3);
}

function laneBars(plan) {
  return h(
      'ul', {class: 'busy-bars', 'aria-label': 'Share of the step for which each lane is busy'},
      laneSeconds(plan.step).map(
          ([name, busy, moved]) =>
              h('li', null, h('span', null, name),
                h('div', {class: 'progress', 'aria-hidden': 'true'},
                  h('div', {css: {width: width(busy / plan.step.seconds)}})),
                h('span', {class: 'num'}, `${seconds(busy)}${moved > 0 ? ` · ${bytes(moved)}` : ''}`))));
}

function stepFacts(plan) {
  const step = plan.step, steps = plan.total_steps;
  return facts(
      [
        ['a step', seconds(step.seconds), 'step-seconds'],
        ['tokens/s', short(plan.tokens_per_second), 'tokens-per-second'],
        steps > 0 &&
            ['the run', [seconds(step.seconds * steps), ' ', h('small', null, `${count(steps)} steps`)], 'run-seconds'],
        ['bound by', [plan.bound_by, ' ', h('small', null, `${percent(plan.bound_share)} of the step`)], 'bound-by'],
        ['policy', plan.policy, 'policy'],
        ['parameters', parameters(plan.model?.parameters)],
        plan.drive_wear_per_step > 0 && steps > 0 && ['drive wear', percent(plan.drive_wear_per_step * steps)],
        plan.tokens_per_unit_of_price && ['tokens per unit of price', short(plan.tokens_per_unit_of_price)],
      ],
      {'data-name': 'step-facts'});
}

function wordsOf(plan) {
  const numbers = plan.numerics ?? {};
  const lines = [
    ['Plan', plan.plan],
    ['Updates', plan.updates],
    ['Activations', plan.saved],
    ['Improvement', plan.improvement],
    [
      'Numbers',
      [
        `computed in ${numbers.compute}`, `moments ${numbers.state_format}`, `gradients ${numbers.gradient_format}`,
        `${numbers.micro_count} × ${numbers.micro_rows} rows a step`
      ].join(', ')
    ],
  ];
  return h(
      'dl', {class: 'words'},
      lines.filter(([, text]) => text).map(([term, text]) => h('div', null, h('dt', null, term), h('dd', null, text))));
}

// Of the event `plan`.
export function planFigure(plan) {
  return h(
      'div', {class: 'stack', 'data-name': 'plan'}, stepFacts(plan), usedTiers(plan).map((tier) => tierBar(plan, tier)),
      placementTable(plan), laneBars(plan), wordsOf(plan), plan.notes?.length > 0 && notesList(plan.notes));
}

// Null clears a key.
function methodSettings(row) {
  const quantized = row.weight_storage && row.weight_storage !== 'as_file';
  return {method: row.method, adapter: row.adapter ?? null, weight_storage: quantized ? row.weight_storage : null};
}

// As the comparison names it: adamw, qlora.
function methodName(row) {
  if (!row.adapter) return row.method;
  return `${row.method}, ${row.adapter === 'lora' && row.weight_storage === 'nf4' ? 'qlora' : row.adapter}`;
}

const fitting = (row, text) => (row.fits === false ? '–' : text());

function useColumn(action, name, use) {
  const cell = (row) => row.fits === false ? '' : button('Use', action, () => use(row), {
    class: 'quiet',
    'aria-label': `Use ${name(row)}`,
  });
  return {head: '', act: true, cell};
}

export function methodsTable(rows, advised, use) {
  const show = (key, form) => (row) => fitting(row, () => (row[key] > 0 ? form(row[key]) : '–'));
  return table(
      'methods',
      [
        {
          head: 'method',
          cell: (row) =>
              [methodName(row), row.fits === false && h('small', {class: 'muted'}, ' does not fit'),
               advised && methodName(row) === advised && h('small', {class: 'muted'}, ' · advised')]
        },
        {head: 'a step', n: true, cell: show('step_seconds', seconds)},
        {head: 'steps', n: true, cell: (row) => fitting(row, () => `× ${short(row.steps_factor)}`)},
        {head: 'the run', n: true, cell: show('run_seconds', seconds)},
        {head: 'device', n: true, cell: show('device_bytes', bytes)},
        {head: 'memory', n: true, cell: show('memory_bytes', bytes)},
        {head: 'disk', n: true, cell: show('disk_bytes', bytes)},
        useColumn('use-method', methodName, (row) => use(methodSettings(row))),
      ],
      rows, {caption: 'Other methods'});
}

function settingsText(settings) {
  return Object.entries(settings ?? {})
      .map(([key, value]) => `${key}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
      .join(' ');
}

export function cheaperTable(rows, use) {
  return table(
      'cheaper',
      [
        {
          head: 'settings',
          cell: (row) =>
              [h('code', null, settingsText(row.settings)),
               row.changes?.length > 0 && h('small', {class: 'muted changes'}, changesText(row.changes))]
        },
        {head: 'gain', n: true, cell: (row) => `× ${short(row.gain, 3)}`},
        {head: 'a step', n: true, cell: (row) => seconds(row.step_seconds)},
        {head: 'tokens/s', n: true, cell: (row) => short(row.tokens_per_second)},
        {head: 'device', n: true, cell: (row) => (row.device_bytes > 0 ? bytes(row.device_bytes) : '–')},
        {head: 'memory', n: true, cell: (row) => bytes(row.memory_bytes)},
        {head: 'disk', n: true, cell: (row) => (row.disk_bytes > 0 ? bytes(row.disk_bytes) : '–')},
        useColumn('use-cheaper', (row) => settingsText(row.settings), (row) => use(row.settings)),
      ],
      rows, {caption: 'Faster settings'});
}

function changesText(changes) {
  return Array.isArray(changes) ? changes.join('; ') : String(changes);
}
