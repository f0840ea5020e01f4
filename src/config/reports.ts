import { integer, named, type Setting } from './setting.ts'

/** Lifetime of reports, and how many long responses about them an account may have open per node. */
export const reportSettings = {
  resultSeconds: named('PLINTH_RESULT_TTL', integer(60, 31_536_000, 604_800, 'Life of a report file, seconds')),
  taskSeconds: named('PLINTH_TASK_TTL', integer(60, 31_536_000, 2_592_000, 'Life of a task record, seconds')),
  maxWaiters: named(
    'PLINTH_MAX_WAITERS',
    integer(1, 1_000, 20, 'Event streams and waiting requests of an account that may be open on a node'),
  ),
  maxDownloads: named(
    'PLINTH_MAX_DOWNLOADS',
    integer(1, 256, 10, 'Downloads of an account that may be under way on a node'),
  ),
}

type Bounds = {
  readonly [Key in keyof typeof reportSettings]: (typeof reportSettings)[Key] extends Setting<infer T> ? T : never
}

/** Selects these settings from a configuration. */
export const reportBounds = ({ resultSeconds, taskSeconds, maxWaiters, maxDownloads }: Bounds): Bounds => ({
  ...{ resultSeconds, taskSeconds, maxWaiters, maxDownloads },
})
