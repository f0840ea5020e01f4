/** Severity of a log line. */
type Level = 'info' | 'warn' | 'error'

interface Entry {
  level: Level
  fields: readonly string[]
  /** When the line is written. The text becomes a row of the table in docs/operations.md. */
  when: string
}

const info = <const F extends readonly string[]>(fields: F, when: string) => ({ level: 'info', fields, when }) as const
const warn = <const F extends readonly string[]>(fields: F, when: string) => ({ level: 'warn', fields, when }) as const
const error = <const F extends readonly string[]>(fields: F, when: string) =>
  ({ level: 'error', fields, when }) as const

/**
 * Every log message, except the access log, with its level and its fields. Lines contain no other fields, so that no
 * header, body or query can reach the log. `err` is an error: see `errorFields`.
 */
export const entries = {
  'service started': info(
    ['version', 'node', 'engine', 'roles', 'address', 'listening', 'definition', 'resources', 'next'],
    'The service accepts requests. `next` is set while no client is registered',
  ),
  'service stopping': info(
    ['reason', 'uptimeSeconds'],
    'A signal, the end of the parent process or an error stops the service',
  ),
  'service stopped': info(['ms'], 'The last line: everything is closed'),
  'migration applied': info(['name', 'ms'], 'Startup changed the schema to that of a newer release'),
  'resource table changed': info(['statement'], 'Startup changed a table to match its declaration'),
  'master key created': info(['file'], 'First start without `PLINTH_MASTER_KEY`'),
  'signing key created': info(['kid'], 'First start: the key that signs tokens, and the key that signs cookies'),
  'signing keys rotated': info(
    ['published', 'activeFrom', 'retired'],
    'The schedule published a new key, which signs from `activeFrom` on, or removed keys; `plinth keys rotate` is in the audit log',
  ),
  'data keys changed': info(
    ['ids', 'sealId'],
    '`plinth keys rotate-master` has changed the keys that encrypt secrets; new secrets are encrypted with `sealId`',
  ),
  'webhook key created': info(['kid'], 'First start: the key for `v1a` signatures'),
  'certificate created': info(['authority'], 'Startup created or renewed the certificate of the local authority'),
  'expired rows removed': info(['what', 'count', 'ms'], 'A sweep removed something; each runs once a minute'),
  'clock in step again': info(['aheadMs'], 'The clock differs from that of the database by less than 5 seconds again'),
  'rate-limit store available again': info(['store'], 'The counts are shared again'),
  'backup started': info(['name', 'scheduledFor', 'attempt'], 'A scheduled or requested backup begins'),
  'backup made': info(['name', 'sizeBytes', 'takenAt', 'ms'], 'A scheduled or requested backup is complete'),
  'old backup removed': info(['name'], 'More backups than `PLINTH_BACKUP_KEEP` existed'),
  'logged by code': info(['code', 'text', 'details'], 'A hook, an action or a job called `log.info`'),
  'warning of code': warn(['code', 'text', 'details'], 'A hook, an action or a job called `log.warn`'),
  'error of code': error(['code', 'text', 'details'], 'A hook, an action or a job called `log.error`'),
  'connections refused': warn(
    ['network', 'bound', 'refused'],
    'Connections above a limit were reset; at most one line in ten seconds',
  ),
  'master key replaced': warn(
    [],
    'The database no longer accepts the master key of this process, which continues with the keys it has loaded; restart it with the new master key',
  ),
  'webhook call failed': warn(
    [
      ...(['webhookId', 'deliveryId', 'origin', 'attempt', 'class', 'cause', 'status'] as const),
      ...(['state', 'nextAttemptAt', 'unlogged', 'traceId'] as const),
    ],
    'An attempt failed, or the delivery ended before it was sent; [webhook deliveries](#webhook-deliveries)',
  ),
  'job attempt failed': warn(
    ['jobId', 'job', 'attempt', 'retryAt', 'err'],
    'An attempt of a job of the definition failed; it is tried again at `retryAt`',
  ),
  'webhook disabled': warn(['webhookId', 'reason'], 'An endpoint responded with 410, or failed for five days'),
  'webhook deliveries dropped': warn(
    ['owner', 'dropped', 'maxWaiting'],
    'An owner had too many waiting deliveries; at most one line an hour for each owner',
  ),
  'thread replaced': warn(['thread', 'role'], 'A thread had ended; another one serves in its place'),
  'clock not comparable': warn(['err'], 'The clock of the database could not be read; one line until it can'),
  'clock out of step': warn(
    ['aheadMs', 'ready'],
    'The clock differs from that of the database by more than 5 seconds; above 30 the node is not ready',
  ),
  'nodes differ': warn(
    ['differences'],
    'Startup: another node has other settings or another definition, which is allowed during a [rolling upgrade](scaling.md#rolling-upgrades)',
  ),
  'rate-limit store unavailable': warn(['store', 'err'], 'Until it responds, this process counts by itself'),
  'quotas not saved': warn(['err'], 'Quota usage in Redis could not be written to the database'),
  'client id taken': warn(
    ['clientId'],
    'Startup: another client has the id of the console or of the API reference, where nobody can log in; [the console](#the-console)',
  ),
  'backups not encrypted': warn([], 'Startup: backups contain the keys in plain form; set `PLINTH_BACKUP_PASSPHRASE`'),
  'backup lease not extended': warn(['err'], 'Another process may take over a backup'),
  'metrics not read': warn(['err'], 'Some or all metrics could not be read for a scrape'),
  'traces not exported': warn(
    ['spans', 'err'],
    'The collector did not accept spans, which are lost; at most one line a minute, with the number since the last one',
  ),
  'backup failed': error(['name', 'err'], 'A scheduled or requested backup failed'),
  'old backups not removed': error(['err'], 'After a backup'),
  'backup schedule not checked': error(['err'], 'The backups could not be read from the database'),
  'request failed': error(['requestId', 'traceId', 'err'], 'A response with a status of 500 or above'),
  'database damaged': error(
    ['file', 'err'],
    'A statement met a damaged page of the SQLite file; nothing is written to it any more, and the node is not ready',
  ),
  'thread failed': error(['thread', 'role', 'err'], 'An uncaught error ended a thread, or it could not start again'),
  'thread hangs': error(
    ['thread', 'role', 'seconds', 'code'],
    'A thread did not react for so many seconds, such as in an endless loop of the definition; it is replaced. `code` names the hook, action or job that it was running',
  ),
  'service failed': error(['err'], 'An uncaught error stops the service'),
  'job failed': error(
    ['queue', 'jobId', 'job', 'attempt', 'traceId', 'err'],
    'A job of the queue failed and will run again, or the queue itself failed; with `job`, a job of the definition failed after its last attempt',
  ),
  'report failed': error(['taskId', 'err'], 'A report failed permanently, or its result could not be removed'),
  'background work failed': error(
    ['what', 'err'],
    'Other work that no request waits for, such as `webhooks`, `authorization`, `database` and `sweep of …`',
  ),
  'audit log delayed': error(['err'], 'Tallied refusals could not be written to the audit log yet'),
} as const satisfies Record<string, Entry>

export type Message = keyof typeof entries
type MessageAt<L extends Level> = { [M in Message]: (typeof entries)[M]['level'] extends L ? M : never }[Message]
type FieldsOf<M extends Message> = { readonly [Field in (typeof entries)[M]['fields'][number]]?: unknown }

/** For each level, a function that writes a line. Accepts only the level's messages and their fields in `entries`. */
export type Log = {
  [L in Level]: <M extends MessageAt<L>>(fields: FieldsOf<M>, message: M) => void
}
