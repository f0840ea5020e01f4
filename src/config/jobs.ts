import { integer, named } from './setting.ts'

/** Settings for the jobs of a definition: how many run at once, and how long they are kept. */
export const jobSettings = {
  jobConcurrency: named('PLINTH_JOB_CONCURRENCY', integer(1, 500, 10, 'Jobs that a worker runs at the same time')),
  jobSeconds: named(
    'PLINTH_JOB_TTL',
    integer(60, 31_536_000, 2_592_000, 'Time for which an ended job is kept, seconds'),
  ),
}
