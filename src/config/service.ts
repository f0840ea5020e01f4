import { choice, named, optional, text, words } from './setting.ts'

const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const

/** Settings for the service definition, and for the process's roles and log level. */
export const serviceSettings = {
  definitionFile: named(
    'PLINTH_DEFINITION',
    optional(text('', 'Definition of the service; users, products and books by default')),
  ),
  roles: named('PLINTH_ROLES', words(['api', 'auth', 'worker'], 'api,auth,worker', 'What this process does')),
  console: named('PLINTH_CONSOLE', choice(['on', 'off'], 'on', 'Whether the console is served at `/console`')),
  logLevel: named('PLINTH_LOG_LEVEL', choice(levels, 'info', 'Lowest severity that is logged')),
}
