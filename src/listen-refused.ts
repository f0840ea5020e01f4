/** The address of a listener, and the setting of its port. */
interface Place {
  host: string
  port: number
  setting: 'PLINTH_PORT' | 'PLINTH_HTTP_PORT'
}

const otherHost = 'set PLINTH_HOST to another'
const explanations: Record<string, (place: Place) => string> = {
  EADDRINUSE: ({ setting }) => `another program listens there. Stop it, or set ${setting} to another port`,
  EACCES: ({ setting }) => `this user may not. Set ${setting} to a port from 1024 on`,
  EADDRNOTAVAIL: () => `this machine has no such address; ${otherHost}`,
  ENOTFOUND: () => `no such host is known; ${otherHost}`,
}

/** Throws an error that says why a listener did not open and how to fix it; rethrows other errors. */
export const refuseListening =
  (place: Place) =>
  (error: NodeJS.ErrnoException): never => {
    const explain = explanations[error.code ?? '']
    if (explain === undefined) throw error
    throw new Error(`Cannot listen on port ${place.port} of ${place.host}: ${explain(place)}`, { cause: error })
  }
