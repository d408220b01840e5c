// settings.js: the keys of run.yaml, as `windlass config schema` describes them: what kind of value each has, and its
// texts in a field, in run.yaml and on a command line.

import {get} from './requests.js';

let keys = null;

// {KEY: property}, without other names of keys.
export async function loadKeys() {
  if (keys) return keys;
  const {schema} = await get('/api/schema');
  keys = Object.fromEntries(Object.entries(schema.properties).filter(([, property]) => !property.$ref));
  return keys;
}

export function isKey(name) {
  return keys !== null && name !== undefined && Object.hasOwn(keys, name);
}

function typesOf(property) {
  const parts = property.anyOf ?? [property];
  return new Set(parts.flatMap((part) => part.type ?? []));
}

// boolean, choice, list, size, number or text
export function kindOf(property) {
  const types = typesOf(property);
  if (types.has('boolean')) return 'boolean';
  if (types.has('array')) return 'list';
  if (property.enum) return 'choice';
  if (property.pattern) return 'size';
  if (!types.has('string') && (types.has('number') || types.has('integer'))) return 'number';
  return 'text';
}

// Words that a number may be instead: auto.
export function wordsOf(property) {
  return (property.anyOf ?? []).flatMap((part) => part.enum ?? []).filter((word) => typeof word === 'string');
}

export function defaultText(property) {
  const value = property.default;
  if (value === null || value === undefined || (Array.isArray(value) && value.length === 0)) return '';
  return textOf(value);
}

// 2e-5, not 0.00002.
function numberText(value) {
  return value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential() : String(value);
}

export function textOf(value) {
  if (Array.isArray(value))
    return value.map((one) => (typeof one === 'object' ? JSON.stringify(one) : String(one))).join('\n');
  if (value !== null && typeof value === 'object') return JSON.stringify(value);
  return typeof value === 'number' ? numberText(value) : String(value);
}

function parseNumber(text, property) {
  if (text === 'null' || wordsOf(property).includes(text)) return {value: text === 'null' ? null : text};
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return {problem: 'Expected a number.'};
  const value = Number(text);
  const part = property.anyOf?.[0] ?? property;
  if (typesOf(property).has('integer') && !Number.isInteger(value)) return {problem: 'Expected a whole number.'};
  if (part.minimum !== undefined && value < part.minimum) return {problem: `Expected at least ${part.minimum}.`};
  if (part.maximum !== undefined && value > part.maximum) return {problem: `Expected at most ${part.maximum}.`};
  return {value};
}

function parseList(text) {
  if (text.startsWith('[')) {
    try {
      return {value: JSON.parse(text)};
    } catch {
      return {problem: 'Expected a list in JSON, or one value a line.'};
    }
  }
  return {value: text.split('\n').map((line) => line.trim()).filter(Boolean)};
}

// {value} or {problem} of a field's text; null if it is empty.
export function parse(key, text) {
  const trimmed = text.trim();
  if (trimmed === '' || !isKey(key)) return null;
  const property = keys[key];
  switch (kindOf(property)) {
    case 'boolean':
      return {value: trimmed === 'true'};
    case 'choice':
      return {value: property.enum.find((choice) => String(choice) === trimmed) ?? trimmed};
    case 'number':
      return parseNumber(trimmed, property);
    case 'list':
      return parseList(trimmed);
    default:
      return {value: trimmed};
  }
}

export function sameValue(a, b) {
  return JSON.stringify(a) === JSON.stringify(b);
}

export function yamlOf(settings) {
  return Object.entries(settings).map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`).join('');
}

function shellQuoted(text) {
  return /^[\w./:=,@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

function plainText(value) {
  if (Array.isArray(value) && value.length === 1 && /^[\w./@%+-]+$/.test(String(value[0]))) return String(value[0]);
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export function commandOf(verb, settings) {
  const words = Object.entries(settings).map(([key, value]) => shellQuoted(`${key}=${plainText(value)}`));
  return ['windlass', verb, ...words].join(' ');
}

function settingOf(name, text) {
  const key = name.replaceAll('-', '_');
  if (isKey(key)) return {key, text: (text ?? 'true').replace(/^(['"])(.*)\1$/, '$2')};
  return key.startsWith('no_') && isKey(key.slice(3)) ? {key: key.slice(3), text: 'false'} : null;
}

// The settings in `--ram 118MiB --policy in_memory`, `ram=118MiB`, `ram: 118MiB` or `--overwrite`, each {key, text};
// null if the advice is, or contains, something else.
export function settingsIn(advice) {
  const single = /^([a-z]\w*)(?:=|: +)(\S+)$/.exec(advice.trim());
  if (single) {
    const setting = settingOf(single[1], single[2]);
    return setting && [setting];
  }
  if (!/^(--[a-z][\w-]*([ =](?!--)\S+)?(\s+|$))+$/.test(advice.trim())) return null;
  const found =
      [...advice.matchAll(/--([a-z][\w-]*)(?:[ =](?!--)(\S+))?/g)].map((match) => settingOf(match[1], match[2]));
  return found.every(Boolean) ? found : null;
}

// The keys that an error is about, each with the line that names it: from its place, from lines such as
// `--lr: learning_rate: "abc" is not a number` or `lora_r has no meaning without an adapter`, or from a value of
// `settings`.
export function keysIn(error, settings) {
  const found = new Map();
  const text = String(error.text ?? '').slice(0, 10000), place = String(error.place ?? '');
  const add = (key, line) => {
    if (isKey(key) && !found.has(key)) found.set(key, line.trim());
  };
  add(place.replace(/^--/, '').split(/[\s=:[]/)[0].replaceAll('-', '_'), text.split('\n')[0]);
  for (const line of text.split('\n')) {
    for (const match of line.matchAll(/(?:^|[\s.:])([a-z]\w*)(?=: )/g)) add(match[1], line);
    add(/^\W*([a-z]\w*) (?:is|has|needs|must|and|or|does|may) /.exec(line)?.[1], line);
  }
  for (const [key, value] of Object.entries(settings))
    if (place !== '' && [value].flat().includes(place)) add(key, text.split('\n')[0]);
  return found;
}
