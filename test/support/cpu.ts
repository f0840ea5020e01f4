/** The processor's time of some work in ms, which neighbours do not slow: the least of three, as a first run is compiled. */
export function cpuMs(work: () => void): number {
  const once = () => {
    const started = process.cpuUsage()
    work()
    const { user, system } = process.cpuUsage(started)
    return (user + system) / 1_000
  }
  return Math.min(once(), once(), once())
}

/** The same of work that is waited for. */
export async function cpuMsOf(work: () => Promise<unknown>): Promise<number> {
  const once = async () => {
    const started = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(started)
    return (user + system) / 1_000
  }
  return Math.min(await once(), await once(), await once())
}
