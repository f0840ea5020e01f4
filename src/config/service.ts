import { availableParallelism } from 'node:os'
import { choice, integer, named, optional, text, words } from './setting.ts'

const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

/**
 * Platforms on which several threads can listen on one port
 * (https://nodejs.org/api/net.html#serverlistenoptions-callback).
 */
const sharesPorts = ['linux', 'freebsd', 'aix', 'sunos'].includes(process.platform)
const maxUsualThreads = 8

/** Returns how many threads serve requests; null means the default number. */
export const threadsOf = (threads: number | null): number =>
  threads ?? (sharesPorts ? Math.min(maxUsualThreads, availableParallelism()) : 1)

/** Settings for the service definition, and for the process's roles and logs. */
export const serviceSettings = {
  definitionFile: named(
    'PLINTH_DEFINITION',
    optional(text('', 'Definition of the service; users, products and books by default')),
  ),
  roles: named('PLINTH_ROLES', words(['api', 'auth', 'worker'], 'api,auth,worker', 'What this process does')),
  threads: named(
    'PLINTH_THREADS',
    optional(integer(1, sharesPorts ? 64 : 1, 1, 'Threads that serve requests; by default one per core, at most 8')),
  ),
  console: named('PLINTH_CONSOLE', choice(['on', 'off'], 'on', 'Whether the console is served at `/console`')),
  logLevel: named('PLINTH_LOG_LEVEL', choice(levels, 'info', 'Lowest severity that is logged')),
  requestLogRate: named(
    'PLINTH_REQUEST_LOG_RATE',
    integer(0, 10_000, 100, 'Responses per second that a node stores for a day, for GET /api/requests; 0 for none'),
  ),
}
