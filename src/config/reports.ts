import { integer, named, optional, text } from './setting.ts'

/**
 * Settings for reports: their lifetime and fonts, and how many event streams, waiting requests, downloads and
 * uploads an account may have open per node.
 */
export const reportSettings = {
  resultSeconds: named('PLINTH_RESULT_TTL', integer(60, 31_536_000, 604_800, 'Lifetime of a report file, seconds')),
  taskSeconds: named('PLINTH_TASK_TTL', integer(60, 31_536_000, 2_592_000, 'Lifetime of a task, seconds')),
  maxWaiters: named(
    'PLINTH_MAX_WAITERS',
    integer(1, 1_000, 20, 'Concurrent event streams of reports and waiting requests of an account in each thread'),
  ),
  maxDownloads: named('PLINTH_MAX_DOWNLOADS', integer(1, 256, 10, 'Concurrent downloads of an account in each thread')),
  maxUploads: named('PLINTH_MAX_UPLOADS', integer(1, 16, 4, 'Concurrent uploads of an account in each thread')),
  pdfFont: named('PLINTH_PDF_FONT', optional(text('', 'Font file for scripts that the built-in PDF fonts lack'))),
}
