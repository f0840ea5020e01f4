import { integer, named } from './setting.ts'

/** Settings for the event streams of resources. */
export const streamSettings = {
  perAccount: named('PLINTH_MAX_STREAMS', integer(1, 10_000, 20, 'Open event streams of an account in each thread')),
  historySeconds: named(
    'PLINTH_STREAM_HISTORY',
    integer(60, 604_800, 3_600, 'Seconds after which a client can still resume an event stream'),
  ),
}
