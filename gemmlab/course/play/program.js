// Runs a GPU kernel that is given as data (program.py): work-group by work-group, and warp by warp as a GPU does. This
// file knows no kernel.
"use strict";

const WARP = 32, SECTOR = 32, BANKS = 32, WORD = 4;  // work-items, bytes, banks of local memory, bytes of a bank's word
const RETURNED = Symbol("returned");

const OPERATIONS = {
  "+": (x, y) => x + y, "-": (x, y) => x - y, "*": (x, y) => x * y, "/": (x, y) => Math.trunc(x / y), "%": (x, y) => x % y,
  "<": (x, y) => x < y, "<=": (x, y) => x <= y, ">": (x, y) => x > y, ">=": (x, y) => x >= y,
  "==": (x, y) => x == y, "!=": (x, y) => x != y, "min": Math.min, "max": Math.max,
};

// The kernel as functions of JavaScript. What may wait at a barrier is a generator, which yields there; all other code is
// plain. A frame is a function's variables with the work-item that runs it; an item notes its accesses, and where in the
// text and in which passes of the loops each is: `path`.
class Compiled {
  constructor(program, names) {
    this.program = program;
    this.names = names;
    this.compiled = [];
    this.localStarts = [];
    this.localBytes = 0;
    for (const bytes of program.local) {
      this.localStarts.push(this.localBytes);
      this.localBytes += Math.ceil(this.code(bytes)({}) / 16) * 16;
    }
    this.kernel = this.body(program.kernel);
    this.kernelWaits = this.waits(program.functions[program.kernel]);
  }
  waits(code) {
    if (!Array.isArray(code)) return false;
    if (code[0] === "barrier") return true;
    if (code[0] === "call") return this.waits(this.program.functions[code[1]]);
    return code.some((part) => this.waits(part));
  }
  body(number) {
    this.compiled[number] ??= this.code(this.program.functions[number]);
    return this.compiled[number];
  }
  code(code) {
    if (!Array.isArray(code)) return () => code;
    return this[code[0].replaceAll(" ", "_")](code, this.waits(code));
  }
  name([, name]) {
    if (!(name in this.names)) throw new Error(`${name} has no value`);
    const value = this.names[name];
    return () => value;
  }
  get([, slot]) { return (f) => f.slots[slot]; }
  set([, slot, given]) { const x = this.code(given); return (f) => { f.slots[slot] = x(f); }; }
  set_field([, slot, field, given]) { const x = this.code(given); return (f) => { f.slots[slot][field] = x(f); }; }
  pair() { return () => [0, 0]; }
  field([, given, field]) { const x = this.code(given); return (f) => x(f)[field]; }
  reference([, slot]) { return (f) => ({ slots: f.slots, slot }); }
  refer([, given]) { const x = this.code(given); return (f) => { const at = x(f); return at.slots[at.slot]; }; }
  set_referred([, to, given]) {
    const [at, x] = [this.code(to), this.code(given)];
    return (f) => { const target = at(f); target.slots[target.slot] = x(f); };
  }
  id([, which, axis]) { const x = this.code(axis); return (f) => f.item.ids[which][x(f)]; }
  local([, number]) { const start = this.localStarts[number]; return () => start; }
  not([, given]) { const x = this.code(given); return (f) => !x(f); }
  neg([, given]) { const x = this.code(given); return (f) => -x(f); }
  op([, sign, left, right]) {
    const [x, y] = [this.code(left), this.code(right)];
    if (sign === "&&") return (f) => x(f) && y(f);
    if (sign === "||") return (f) => x(f) || y(f);
    const operation = OPERATIONS[sign];
    return (f) => operation(x(f), y(f));
  }
  read(code) { return this.access(code); }
  write(code) { return this.access(code); }
  access([what, space, given, bytes, place]) {
    const address = this.code(given), write = what === "write";
    return (f) => { f.item.accesses.push({ space, write, address: address(f), bytes, path: [...f.item.path, place] }); };
  }
  barrier() { return function* () { yield; }; }
  return([, given]) { const x = this.code(given); return (f) => { f.result = x(f); return RETURNED; }; }
  each([, ...codes], waits) {
    const parts = codes.map((code) => [this.code(code), this.waits(code)]);
    if (!waits) return (f) => {
      for (const [part] of parts) if (part(f) === RETURNED) return RETURNED;
    };
    return function* (f) {
      for (const [part, partWaits] of parts) if ((partWaits ? yield* part(f) : part(f)) === RETURNED) return RETURNED;
    };
  }
  if([, condition, yes, no], waits) {
    const [test, x, y] = [condition, yes, no].map((code) => this.code(code));
    if (!waits) return (f) => (test(f) ? x(f) : y(f));
    const [xWaits, yWaits] = [this.waits(yes), this.waits(no)];
    return function* (f) {
      if (test(f)) return xWaits ? yield* x(f) : x(f);
      return yWaits ? yield* y(f) : y(f);
    };
  }
  for([, place, begin, condition, step, inner], waits) {
    const [first, test, next, body] = [begin, condition, step, inner].map((code) => this.code(code));
    if (!waits) return (f) => {
      const path = f.item.path, depth = path.push(place, 0);
      for (first(f); test(f); next(f), path[depth - 1]++) if (body(f) === RETURNED) { path.length = depth - 2; return RETURNED; }
      path.length = depth - 2;
    };
    return function* (f) {
      const path = f.item.path, depth = path.push(place, 0);
      for (first(f); test(f); next(f), path[depth - 1]++) if ((yield* body(f)) === RETURNED) { path.length = depth - 2; return RETURNED; }
      path.length = depth - 2;
    };
  }
  call([, number, place, given], waits) {
    const values = given.map((code) => this.code(code));
    const enter = (f) => {
      f.item.path.push(place, 0);
      return { slots: values.map((x) => x(f)), item: f.item, result: 0 };
    };
    const leave = (f, inner) => { f.item.path.length -= 2; return inner.result; };
    if (waits) return function* (f) {
      const inner = enter(f);
      yield* this.body(number)(inner);
      leave(f, inner);
    }.bind(this);
    return (f) => {
      const inner = enter(f);
      this.body(number)(inner);
      return leave(f, inner);
    };
  }
}

// Which of two accesses comes first in the text, with its loops.
function isBefore(x, y) {
  for (let i = 0; i < Math.min(x.length, y.length); i++) if (x[i] !== y[i]) return x[i] < y[i];
  return x.length < y.length;
}

// What the 32 work-items of a warp do until a barrier, instruction by instruction: those that are at the same place of the
// text, in the same passes, go together.
function* instructionsOf(accesses) {
  const next = accesses.map(() => 0);
  for (;;) {
    let first = null;
    accesses.forEach((list, lane) => {
      const one = list[next[lane]];
      if (one && (first === null || isBefore(one.path, first.path))) first = one;
    });
    if (first === null) return;
    const lanes = [];
    accesses.forEach((list, lane) => {
      const one = list[next[lane]];
      if (!one || isBefore(first.path, one.path)) return;
      lanes.push({ lane, address: one.address });
      next[lane]++;
    });
    yield { space: first.space, write: first.write, bytes: first.bytes, lanes };
  }
}

// Pieces of 32 bytes that a warp's access moves between the caches and memory.
function sectorsOf({ lanes, bytes }) {
  const sectors = new Set();
  for (const { address } of lanes)
    for (let i = Math.floor(address / SECTOR); i <= Math.floor((address + bytes - 1) / SECTOR); i++) sectors.add(i);
  return sectors.size;
}

// How often the banks of local memory are used for a warp's access, and how often they would be without conflicts. A pass
// takes one word from each bank. Work-items with more than a word each go by halves and quarters of the warp.
function passesOf({ lanes, bytes }) {
  const together = WARP / Math.max(1, bytes / WORD), words = new Map();
  for (const { lane, address } of lanes) {
    const part = Math.floor(lane / together);
    for (let word = address / WORD; word < (address + bytes) / WORD; word++) {
      const key = part * BANKS + word % BANKS;
      if (!words.has(key)) words.set(key, new Set());
      words.get(key).add(word);
    }
  }
  const most = new Map();
  for (const [key, some] of words) {
    const part = Math.floor(key / BANKS);
    most.set(part, Math.max(most.get(part) ?? 0, some.size));
  }
  return { passes: [...most.values()].reduce((x, y) => x + y, 0), least: most.size, words };
}

// A run of a kernel over its grid: one warp's access after the other.
class GridRun {
  constructor(rung, settings) {
    this.settings = settings;
    const { n, pad, parameters } = settings, pitch = n + pad, [groupX, groupY, grid] = shapeOf(rung, settings);
    const bytes = Math.ceil(n * pitch * rung.bytes / 4096) * 4096;
    this.areas = ["A", "B", "C"].map((name, i) => ({ name, start: i * bytes, pitch: pitch * rung.bytes, rows: n, columns: n }));
    const names = { ...rung.constants, ...rung.layouts[`${n},${pad}`], m: n, n, k: n, GROUP_X: groupX, GROUP_Y: groupY };
    this.areas.forEach(({ name, start }) => Object.assign(names, { [name]: start, [`${name}_start`]: 0, [`ld${name.toLowerCase()}`]: pitch, [`${name}_step`]: 0 }));
    for (const [name, value] of Object.entries({ ...parameters, ...blockOf(rung, settings) })) names[name.toUpperCase()] = value;
    this.group = [groupX, groupY, 1];
    this.grid = grid;
    this.groups = grid[0] * grid[1];
    this.kernel = new Compiled(rung.program, names);
    this.done = 0;
    this.ended = false;
    this.counts = { global: { accesses: 0, bytes: 0, sectors: 0, least: 0 }, local: { accesses: 0, bytes: 0, passes: 0, least: 0 } };
    this.checksum = 0;
    this.touched = new Set();
    this.instructions = this.run();
  }
  items(number) {
    const at = [number % this.grid[0], Math.floor(number / this.grid[0]), 0], made = [];
    for (let y = 0; y < this.group[1]; y++)
      for (let x = 0; x < this.group[0]; x++) {
        const ids = { "local id": [x, y, 0], "group id": at, groups: [...this.grid, 1], "local size": this.group };
        ids["global id"] = [at[0] * this.group[0] + x, at[1] * this.group[1] + y, 0];
        const item = { ids, path: [], accesses: [] }, frame = { slots: [], item, result: 0 };
        item.running = this.kernel.kernelWaits
          ? this.kernel.kernel(frame) : { next: () => { this.kernel.kernel(frame); return { done: true }; } };
        made.push(item);
      }
    return made;
  }
  *run() {
    for (let number = 0; number < this.groups; number++) {
      const items = this.items(number);
      this.touched.clear();
      for (let interval = 0, running = true; running; interval++) {
        running = false;
        items.forEach((item) => {
          item.accesses = [];
          if (!item.ended && item.running.next().done) item.ended = true;
          running ||= !item.ended;
        });
        const warps = [];
        for (let first = 0; first < items.length; first += WARP)
          warps.push(instructionsOf(items.slice(first, first + WARP).map((item) => item.accesses)));
        while (warps.some(Boolean))
          for (let warp = 0; warp < warps.length; warp++) {
            if (!warps[warp]) continue;
            const { value, done } = warps[warp].next();
            if (done) warps[warp] = null;
            else yield { ...value, number, warp, interval };
          }
      }
    }
  }
  step() {  // the next access of a warp; null at the end
    const { value, done } = this.instructions.next();
    if (done) { this.ended = true; return null; }
    this.done++;
    const counts = this.counts[value.space];
    counts.accesses++;
    counts.bytes += value.lanes.length * value.bytes;
    if (value.space === "global") {
      value.sectors = sectorsOf(value);
      counts.sectors += value.sectors;
      counts.least += value.bytes * new Set(value.lanes.map(({ address }) => address)).size;
      value.lanes.forEach(({ address }) => { for (let i = 0; i < value.bytes; i += WORD) this.touched.add(address + i); });
    } else {
      Object.assign(value, passesOf(value));
      counts.passes += value.passes;
      counts.least += value.least;
    }
    const kind = 4 * (value.space === "global") + 2 * value.write, at = value.number * 1000003 + value.interval * 10007;
    for (const { lane, address } of value.lanes)
      this.checksum = (this.checksum + (at + (value.warp * WARP + lane) * 101 + address * 7 + value.bytes * 3 + kind) % 1000000007) % 9007199254740881;
    return value;
  }
  finish() {
    while (this.step() !== null);
    return this;
  }
}

// Work-items of a group in both directions, and groups of the grid.
function shapeOf(rung, settings) {
  const [x, y, columns, rows] = rung.shapes[keyOf(rung, settings)], { n } = settings;
  const across = Math.ceil(n / columns), down = Math.ceil(n / rows);
  return [x, y, rung.linear ? [across * down, 1] : [across, down]];
}
const blockOf = (rung, settings) => {
  const [, , columns, rows] = rung.shapes[keyOf(rung, settings)];
  return { BLOCK_X: columns, BLOCK_Y: rows };
};
const keyOf = (rung, settings) => Object.keys(rung.parameters).map((name) => settings.parameters[name]).join(",");
