import { readFileSync, writeFileSync } from 'node:fs'

export interface Memory {
  /** Resident now. */
  rssMiB: number
  /** Resident at most since the last `forgetPeak`. */
  peakMiB: number
}

/** What the kernel says about a process's memory. */
export function memoryOf(pid: number): Memory {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  const mebibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1_024
  return { rssMiB: mebibytes('VmRSS'), peakMiB: mebibytes('VmHWM') }
}

/** Makes the peak start anew, so that each row has its own. */
export function forgetPeak(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/clear_refs`, '5')
  } catch {
    // Where that is not allowed the peak only grows, which is no less true.
  }
}
