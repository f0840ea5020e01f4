import { integer, named } from './setting.ts'

/** Connection settings; in development one address, which is this machine, may have ten times as many. */
export const serverSettings = (production: boolean) => ({
  keepAliveSeconds: named(
    'PLINTH_KEEP_ALIVE',
    integer(1, 3_600, 75, 'Seconds that a connection without a request stays open'),
  ),
  drainSeconds: named(
    'PLINTH_DRAIN',
    integer(0, 15, production ? 5 : 1, 'Seconds that a stopping service still takes requests'),
  ),
  maxConnections: named('PLINTH_MAX_CONNECTIONS', integer(1, 1_000_000, 2_000, 'Open connections of this process')),
  maxConnectionsPerAddress: named(
    'PLINTH_MAX_CONNECTIONS_PER_ADDRESS',
    integer(1, 1_000_000, production ? 200 : 2_000, 'Open connections of one address that is no trusted proxy'),
  ),
})
