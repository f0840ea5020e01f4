import type { Config } from '../../config/config.ts'
import { type SessionOptions, withSession } from '../api-session.ts'
import { type Call, jsonOf } from '../demo/api.ts'
import { screen } from '../demo/screen.ts'
import { follow, type ReportTask, requestReport, save } from './run.ts'

const print = (text: string) => void process.stdout.write(`${text}\n`)
const number = new Intl.NumberFormat('en')

export type ReportFilters = Record<string, string | number>

interface RunOptions extends SessionOptions {
  format: string
  out?: string
  from?: string
  to?: string
  fields?: string
  sort?: string
  filter?: ReportFilters
  param?: Record<string, unknown>
}

/** Requests a report, shows its progress, and saves the result. */
export const run = (config: Config, reportType: string, options: RunOptions): Promise<void> =>
  withSession(config, options, (call) => createReport(call, reportType, options))

async function createReport(call: Call, reportType: string, options: RunOptions): Promise<void> {
  const { format, out, from, to, fields, sort, filter, param } = options
  const parameters = Object.entries({ from, to, fields, sort, filter, ...param }).filter(
    ([, value]) => value !== undefined,
  )
  const { taskId } = await requestReport(call, { reportType, format, parameters: Object.fromEntries(parameters) })
  const file = out ?? `report-${reportType}-${taskId.replace(/[^\w-]/g, '')}.${format}`
  const { step } = screen(process.stdout, process.env)
  const task = await step(
    'Report',
    (showProgress) => follow(call, taskId, showProgress),
    ({ rowCount = 0 }) => `${taskId}, ${number.format(rowCount)} rows`,
  )
  await step(
    'Download',
    (showProgress) => save(call, task, file, showProgress),
    () => `${file}, ${number.format(task.sizeBytes ?? 0)} bytes, digest verified`,
  )
}

/** Prints the first page of the client's report tasks, newest first. */
export const listReports = (
  config: Config,
  options: SessionOptions & { status?: string; json?: boolean },
): Promise<void> =>
  withSession(config, options, async (call) => {
    const query = options.status === undefined ? '' : `?status=${encodeURIComponent(options.status)}`
    const tasks = await jsonOf<ReportTask[]>(await call('GET', `/api/reports${query}`))
    if (options.json) return print(JSON.stringify(tasks, null, 2))
    for (const task of tasks) {
      const about = `${task.status.replace('_', ' ')} ${task.progress} %`.padEnd(18)
      print(`${task.taskId}  ${about}${task.createdAt}  ${task.reportType} as ${task.format}`)
    }
  })

/** Cancels a report task. */
export const cancelReport = (config: Config, taskId: string, options: SessionOptions): Promise<void> =>
  withSession(config, options, async (call) => {
    const response = await call('POST', `/api/reports/${encodeURIComponent(taskId)}/cancel`)
    print(`Cancelled ${(await jsonOf<ReportTask>(response)).taskId}`)
  })
