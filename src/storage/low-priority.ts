import { existsSync, readlinkSync } from 'node:fs'
import { constants, getPriority, setPriority } from 'node:os'
import { basename } from 'node:path'

/** By how much the nice value of a thread that does long work is above that of the threads that serve requests. */
const difference = 10
/** Links to the calling thread; only Linux has it, and only Linux has a priority for each thread (sched(7)). */
const thread = '/proc/thread-self'

/**
 * Lowers the scheduling priority of the calling thread, so that requests wait less for a core when all cores are busy.
 * Does nothing on systems other than Linux.
 */
export function lowerPriority(): void {
  if (!existsSync(thread)) return
  const nice = Math.min(getPriority() + difference, constants.priority.PRIORITY_LOW)
  setPriority(Number(basename(readlinkSync(thread))), nice)
}
