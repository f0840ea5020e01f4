import { Command, InvalidArgumentError, Option } from 'commander'
import { auditRecorder, operator } from '../audit/chain.ts'
import type { Config } from '../config/config.ts'
import { listedJobs, type StoredStatus, storedStatuses } from '../jobs/list.ts'
import { cancelJob, type JobRow, retryJob } from '../jobs/states.ts'
import { databaseTime } from '../storage/clock.ts'
import type { Stores } from '../stores.ts'
import { aligned, print, printJson, withStores } from './print.ts'

/** Creates `plinth jobs …`, the counterpart of the routes under /api/jobs. */
export function jobsCommand(configuration: () => Config): Command {
  const using = withStores(configuration)
  const jobs = new Command('jobs')
  jobs
    .command('list')
    .description('List jobs, newest first')
    .option('--name <name>', 'only jobs of this name')
    .addOption(new Option('--status <status>', 'only jobs with this status').choices([...storedStatuses]))
    .option('--limit <jobs>', 'maximum number of jobs', count, 50)
    .option('--json', 'print JSON')
    .action((options) => using((stores) => list(stores, options)))
  jobs
    .command('retry')
    .description('Start a failed or cancelled job again, with all its retries')
    .argument('<id>', 'id of the job')
    .action((id) => using((stores) => change(stores, id, retryJob, 'job.retried')))
  jobs
    .command('cancel')
    .description('Cancel a waiting or running job; the signal of a running one is aborted within a second')
    .argument('<id>', 'id of the job')
    .action((id) => using((stores) => change(stores, id, cancelJob, 'job.cancelled')))
  return jobs
}

function count(text: string): number {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new InvalidArgumentError('It must be a whole number from 1 to 99999.')
  return Number(text)
}

type ListOptions = { name?: string; status?: StoredStatus; limit: number; json?: boolean }

async function list({ db }: Stores, { json = false, ...filter }: ListOptions): Promise<void> {
  const rows = await listedJobs(db.read, filter)
  if (json) return printJson(rows)
  if (rows.length === 0) return print('No jobs')
  const lines = rows.map(({ id, name, status, attempts, createdAt, dueAt, error }) => [
    ...[id, name, status, String(attempts), createdAt, status === 'waiting' ? dueAt : '', error?.split('\n')[0] ?? ''],
  ])
  for (const line of aligned([['id', 'job', 'status', 'attempts', 'added', 'due', 'last error'], ...lines])) print(line)
}

type Change = (tx: Stores['db']['read'], id: string, nowMs: number) => Promise<JobRow>

async function change({ db, sealer }: Stores, id: string, make: Change, event: 'job.retried' | 'job.cancelled') {
  const nowMs = await databaseTime(db)()
  const record = auditRecorder(sealer, () => nowMs)
  const row = await db.write(async (tx) => {
    const changed = await make(tx, id, nowMs)
    await record(tx, { ...operator, event, target: id, details: { job: changed.name } })
    return changed
  })
  print(`${id}  ${row.name}  ${row.status}`)
}
