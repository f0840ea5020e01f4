import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'

/** One core runs the servers, of which only one is busy at a time; the other core runs the load generator. */
export const serverCore = 0
export const loadCore = 1

/** Returns true if processes can be pinned to both cores on this machine. */
export const canPin = (): boolean =>
  [serverCore, loadCore].every((core) => spawnSync('taskset', ['-c', String(core), 'true']).status === 0)

/** Pins a command to a core if `pin` is set. */
export const pinned = (pin: boolean, core: number, command: string[]): string[] =>
  pin ? ['taskset', '-c', String(core), ...command] : command

/** Describes the machine for the results file. */
export const describeMachine = (pin: boolean) => ({
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: cpus().length,
  memoryMiB: Math.round(totalmem() / 2 ** 20),
  node: process.version,
  pinned: pin,
})

const ticksPerSecond = 100

/** Returns the CPU time of a process and its threads in ms. */
export function cpuMsOf(pid: number): number {
  // The command name in parentheses may contain spaces, so fields are counted from the closing parenthesis.
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / ticksPerSecond
}

/** Returns how long a core has been busy, with any process, in ms. */
export function busyMsOf(core: number): number {
  const line = new RegExp(`^cpu${core} (.*)$`, 'm').exec(readFileSync('/proc/stat', 'latin1'))?.[1] ?? ''
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.split(' ').map(Number)
  return ((user + nice + system + irq + softirq + steal) * 1_000) / ticksPerSecond
}

export interface Memory {
  /** Resident set size. */
  rssMiB: number
  /** Maximum resident set size since the last `resetPeak`. */
  peakMiB: number
}

/** Reads the memory use of a process from /proc. */
export function memoryOf(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  const mebibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1_024
  return { rssMiB: mebibytes('VmRSS'), peakMiB: mebibytes('VmHWM') }
}

/** Resets the peak memory of a process, so that each table row has its own peak. */
export function resetPeak(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {
    // Without permission to reset it, the peak includes earlier table rows.
  }
}

/** Starts measuring the CPU time of a process. */
export function meterOf(pid: number) {
  const start = { wall: performance.now(), busy: busyMsOf(serverCore), cpu: cpuMsOf(pid) }
  let cpu = start.cpu
  return {
    /**
     * Takes a sample. If the process may exit, call this repeatedly: once it has exited, /proc no longer has its CPU time.
     */
    sample: () => {
      try {
        cpu = cpuMsOf(pid)
      } catch {
        // The process has exited, so the last sample is used.
      }
    },
    /**
     * Returns how much of the server core the process and other processes used, as fractions of wall time, and the
     * process's CPU time per row in µs.
     */
    read: (rows: number) => {
      const wall = performance.now() - start.wall
      const used = cpu - start.cpu
      const others = Math.max(0, busyMsOf(serverCore) - start.busy - used)
      return { serverShare: used / wall, othersShare: others / wall, serverUs: (used * 1_000) / rows }
    },
  }
}

/** Wall-clock and CPU times in ms. */
export interface Clocks {
  wall: number
  load: number
  idle: number
  server: number
  serverCore: number
  loadCore: number
}

/** Reads the clocks; `idleMs` is the time that the generator spent waiting. */
export function readClocks(serverPid: number, idleMs: number): Clocks {
  const { user, system } = process.cpuUsage()
  return {
    wall: performance.now(),
    load: (user + system) / 1_000,
    idle: idleMs,
    server: cpuMsOf(serverPid),
    serverCore: busyMsOf(serverCore),
    loadCore: busyMsOf(loadCore),
  }
}

/** Returns shares of the wall time between two readings, and the server's CPU time per response. */
export function sharesOf(before: Clocks, after: Clocks, count: number) {
  const spent = (name: keyof Clocks) => after[name] - before[name]
  const share = (name: keyof Clocks) => spent(name) / spent('wall')
  return {
    serverShare: share('server'),
    loadShare: 1 - share('idle'),
    othersShare: Math.max(0, share('serverCore') - share('server')),
    othersLoadShare: Math.max(0, share('loadCore') - share('load')),
    serverUs: (spent('server') * 1_000) / count,
  }
}
