/**
 * CPU time of some work in ms, not counting other processes: the minimum of three runs, because the first one includes
 * compilation.
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

/** The same for asynchronous work. */
export async function cpuMsOf(work: () => Promise<unknown>): Promise<number> {
  const once = async () => {
    const started = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(started)
    return (user + system) / 1_000
  }
  return Math.min(await once(), await once(), await once())
}
