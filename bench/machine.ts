import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cpus, totalmem } from 'node:os'

/** The core of the servers, one at a time at work, and the core of the load generator. */
export const serverCore = 0
export const loadCore = 1

/** Whether processes can be tied to those two cores here. */
export const canPin = (): boolean =>
  [serverCore, loadCore].every((core) => spawnSync('taskset', ['-c', String(core), 'true']).status === 0)

/** A command tied to a core, where that can be done. */
export const pinned = (pin: boolean, core: number, command: string[]): string[] =>
  pin ? ['taskset', '-c', String(core), ...command] : command

/** What the figures were taken on. */
export const describeMachine = (pin: boolean) => ({
  cpu: cpus()[0]?.model ?? 'unknown',
  cores: cpus().length,
  memoryMiB: Math.round(totalmem() / 2 ** 20),
  node: process.version,
  pinned: pin,
})

const ticksPerSecond = 100

/** CPU time that a process and all its threads have used, in ms. */
export function cpuMsOf(pid: number): number {
  // The name in parentheses may hold spaces: fields are counted from behind it.
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return ((Number(fields[11]) + Number(fields[12])) * 1_000) / ticksPerSecond
}

/** Time that a core was busy, with any process, in ms. */
export function busyMsOf(core: number): number {
  const line = new RegExp(`^cpu${core} (.*)$`, 'm').exec(readFileSync('/proc/stat', 'latin1'))?.[1] ?? ''
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0, steal = 0] = line.split(' ').map(Number)
  return ((user + nice + system + irq + softirq + steal) * 1_000) / ticksPerSecond
}
