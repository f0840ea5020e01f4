import { busyMsOf, cpuMsOf, loadCore, serverCore } from './machine.ts'

/** How far each clock is, in ms: the wall's, and the CPU time of everybody who takes part. */
export interface Clocks {
  wall: number
  load: number
  idle: number
  server: number
  serverCore: number
  loadCore: number
}

/** Reads them; `idleMs` is the time in which the generator only waited. */
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

/** Shares of the time between two readings, and the server's CPU time for each of `count` answers. */
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
