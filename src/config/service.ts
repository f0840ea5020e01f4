import { choice, integer, named, optional, text, words } from './setting.ts'

const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

/** Settings for the service definition, and for the process's roles and logs. */
export const serviceSettings = {
  definitionFile: named(
    'PLINTH_DEFINITION',
    optional(text('', 'Definition of the service; users, products and books by default')),
  ),
  roles: named('PLINTH_ROLES', words(['api', 'auth', 'worker'], 'api,auth,worker', 'What this process does')),
  console: named('PLINTH_CONSOLE', choice(['on', 'off'], 'on', 'Whether the console is served at `/console`')),
  logLevel: named('PLINTH_LOG_LEVEL', choice(levels, 'info', 'Lowest severity that is logged')),
  requestLogRate: named(
    'PLINTH_REQUEST_LOG_RATE',
    integer(0, 10_000, 100, 'Responses per second that a node stores for a day, for GET /api/requests; 0 for none'),
  ),
}
