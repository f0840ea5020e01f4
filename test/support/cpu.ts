/**
 * Returns the CPU time that some work takes in this process, in ms: the minimum of three runs, because the first run
 * includes compilation.
 */
export function cpuMs(work: () => void): number {
  const once = () => {
    const started = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(started)
    return (user + system) / 1_000
  }
  return Math.min(once(), once(), once())
}

/** Returns the CPU time of asynchronous work, measured like `cpuMs`. */
export async function cpuMsOf(work: () => Promise<unknown>): Promise<number> {
  const once = async () => {
    const started = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(started)
    return (user + system) / 1_000
  }
  return Math.min(await once(), await once(), await once())
}
