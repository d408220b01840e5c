// format.js: numbers as people read them. Numbers that are not finite arrive as texts.

export function number(value) {
  if (typeof value === 'number') return value;
  if (value === 'Infinity') return Infinity;
  if (value === '-Infinity') return -Infinity;
  return NaN;
}

export function isNumber(value) {
  return typeof value === 'number' || value === 'NaN' || value === 'Infinity' || value === '-Infinity';
}

const kNone = '–';

export function bytes(value) {
  const n = number(value);
  if (!Number.isFinite(n)) return kNone;
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = 0, rest = n;
  while (Math.abs(rest) >= 1024 && unit < units.length - 1) {
    rest /= 1024;
    ++unit;
  }
  return unit === 0 ? `${Math.round(rest)} B` : `${rest.toFixed(2)} ${units[unit]}`;
}

// 7.5 µs, 12.3 ms, 412 ms, 4.20 s, 3 min 20 s, 1 h 12 min, 3 d 4 h
export function seconds(value) {
  const n = number(value);
  if (!Number.isFinite(n)) return kNone;
  if (n !== 0 && Math.abs(n) < 9.995e-4) return `${Number((n * 1e6).toPrecision(3))} µs`;
  if (n < 0.9995) return `${Number((n * 1e3).toPrecision(3))} ms`;
  if (n < 9.995) return `${n.toFixed(2)} s`;
  if (n < 59.5) return `${n.toFixed(1)} s`;
  const whole = Math.round(n);
  if (whole < 3600) return pair(Math.floor(whole / 60), 'min', whole % 60, 's');
  const minutes = Math.round(n / 60);
  if (minutes < 1440) return pair(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.round(n / 3600);
  return pair(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

function pair(big, bigUnit, small, smallUnit) {
  return small === 0 ? `${big} ${bigUnit}` : `${big} ${bigUnit} ${small} ${smallUnit}`;
}

// Four significant digits: 1.842, 0.0312, 2.0e-5.
export function short(value, digits = 4) {
  const n = number(value);
  if (value === null || value === undefined) return kNone;
  if (!Number.isFinite(n)) return Number.isNaN(n) ? 'NaN' : n > 0 ? '∞' : '-∞';
  if (n === 0) return '0';
  const size = Math.abs(n);
  if (size < 1e-3 || size >= 1e7) return Number(n.toPrecision(3)).toExponential().replace('e+', 'e');
  if (size >= 1000) return Math.round(n).toLocaleString('en-US');
  return String(Number(n.toPrecision(digits)));
}

export function loss(value) {
  const n = number(value);
  return Number.isFinite(n) && Math.abs(n) >= 1e-3 && Math.abs(n) < 1000 ? n.toFixed(4) : short(value);
}

export function count(value) {
  const n = number(value);
  return Number.isFinite(n) ? Math.round(n).toLocaleString('en-US') : kNone;
}

export function parameters(value) {
  const n = number(value);
  if (!Number.isFinite(n)) return kNone;
  if (n >= 1e9) return `${(n / 1e9).toFixed(2)} B`;
  if (n >= 1e6) return `${(n / 1e6).toFixed(2)} M`;
  return count(n);
}

export function percent(share) {
  const n = number(share) * 100;
  if (!Number.isFinite(n)) return kNone;
  return `${n >= 9.95 || n === 0 ? n.toFixed(0) : n.toFixed(1)} %`;
}

// A share as a width in CSS.
export function width(share) {
  return `${Math.max(0, Math.min(1, number(share) || 0)) * 100}%`;
}

export function ago(unixSeconds) {
  const n = number(unixSeconds);
  if (!Number.isFinite(n)) return kNone;
  const passed = Date.now() / 1000 - n;
  return passed < 5 ? 'now' : `${seconds(Math.round(passed))} ago`;
}

export function plural(n, noun) {
  return `${count(n)} ${noun}${n === 1 ? '' : 's'}`;
}
