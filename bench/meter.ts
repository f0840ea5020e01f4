import { busyMsOf, cpuMsOf, serverCore } from './machine.ts'

/** Watches the CPU time of a process for as long as a job takes. */
export function meterOf(pid: number) {
  const start = { wall: performance.now(), busy: busyMsOf(serverCore), cpu: cpuMsOf(pid) }
  let cpu = start.cpu
  return {
    /** To be called now and then while the process may end: nothing is left to look at then. */
    look: () => {
      try {
        cpu = cpuMsOf(pid)
      } catch {
        // It has ended: the last look counts.
      }
    },
    /** What the process, and others on its core, used since the start; `serverUs` is per row. */
    read: (rows: number) => {
      const wall = performance.now() - start.wall
      const used = cpu - start.cpu
      const others = Math.max(0, busyMsOf(serverCore) - start.busy - used)
      return { serverShare: used / wall, othersShare: others / wall, serverUs: (used * 1_000) / rows }
    },
  }
}
