import { backupId } from '../../src/backup/api/views.ts'
import type { Database } from '../../src/storage/database.ts'

/** Adds a completed backup whose file is on another node; returns its id. */
export async function addBackup(db: Database, second: number): Promise<string> {
  const scheduledFor = new Date(Date.parse('2026-01-01T00:00:00Z') + second * 1_000).toISOString()
  const times = { scheduledFor, startedAt: scheduledFor, leaseUntil: scheduledFor, finishedAt: scheduledFor }
  const file = { name: `plinth-${second}.backup`, sizeBytes: 3, location: 'file:/elsewhere' }
  await db.write((tx) =>
    tx
      .insertInto('backups')
      .values({ ...times, ...file, status: 'completed', node: 'node-b 77', attempts: 1 })
      .execute(),
  )
  return backupId(scheduledFor)
}

/** Adds a job with this status; returns its id. */
export async function addJobRow(db: Database, number: number, status: 'waiting' | 'failed'): Promise<string> {
  const id = `job_${String(number).padStart(31, '0')}`
  const at = '2026-01-01T00:00:00.000Z'
  const state = { status, dueAt: at, queued: 0, createdAt: at, endedAt: status === 'failed' ? at : null }
  await db.write((tx) =>
    tx
      .insertInto('declaredJobs')
      .values({ id, name: 'remind', input: '{}', ...state })
      .execute(),
  )
  return id
}

/**
 * Functions that create a request's resources and return their ids. Each request gets new resources, because some
 * requests delete them.
 */
export interface Fixtures {
  user: () => Promise<number>
  product: () => Promise<number>
  book: () => Promise<number>
  /** Creates and deletes a product; `deletedBook` does the same with a book. */
  deletedProduct: () => Promise<number>
  deletedBook: () => Promise<number>
  task: () => Promise<string>
  /** Creates and cancels a report task. */
  endedTask: () => Promise<string>
  webhook: () => Promise<string>
  /** Creates a webhook and a delivery to it; returns both ids. */
  delivery: () => Promise<string[]>
  client: () => Promise<string>
  key: () => Promise<string>
  /** Creates a completed backup whose file is on another node. */
  backup: () => Promise<string>
  /** Creates a waiting job; `failedJob` creates a failed one. */
  job: () => Promise<string>
  failedJob: () => Promise<string>
  /** Returns a number that is unique in this run. */
  fresh: () => number
}

/** The expected status for each caller. `owner` and `other` have every API scope except `admin` and `audit:read`. */
interface Expected {
  /** The client and subject that created the resource. */
  owner: number
  /** Another client with the same scopes. */
  other: number
  /** A client with every API scope. */
  admin: number
  /** A caller without a token; default 401. */
  none?: number
  /** A caller with a valid token without API scopes; default 403. */
  scopeless?: number
  /** A caller with an expired or tampered token; default 401. */
  wrong?: number
}

export interface Row extends Expected {
  /** The path parameters. */
  id?: (fixtures: Fixtures) => Promise<string | number | string[]>
  /** A well-formed unknown id; it must get the same response as another owner's id. */
  missing?: string | string[]
  body?: (fixtures: Fixtures) => object
}

const all = (status: number): Expected => ({ owner: status, other: status, admin: status })
/** Expects the same status for every caller, except callers with an invalid token. */
const everybody = (status: number): Expected => ({ ...all(status), none: status, scopeless: status })
/** Expects this status for the owner and for administrators, and 404 for other clients. */
const owned = (status: number): Expected => ({ owner: status, other: 404, admin: status })
const admins = (status: number): Expected => ({ owner: 403, other: 403, admin: status })
/** Expects the same status for every caller, because the authorization server ignores access tokens. */
const itself = (status: number): Expected => ({ ...everybody(status), wrong: status })

const missingTask = `tsk_${'A'.repeat(22)}`
const missingWebhook = `whk_${'A'.repeat(22)}`
const product = ({ fresh }: Fixtures) => ({ name: `Product ${fresh()}`, price: 1 })
const book = ({ fresh }: Fixtures) => ({ title: `Book ${fresh()}`, author: 'Somebody' })
const user = ({ fresh }: Fixtures) => ({ name: 'Somebody', email: `user${fresh()}@example.com` })
const batch = (made: Fixtures) => ({ items: [{ method: 'POST', collection: 'products', body: product(made) }] })
const report = () => ({ reportType: 'products', format: 'csv' })
const hook = ({ fresh }: Fixtures) => ({ event: '*', callbackUrl: `http://127.0.0.1:9/${fresh()}` })
const client = () => ({ name: 'Client', scopes: ['reports:read'], grants: ['client_credentials'] })

const users = { id: (made: Fixtures) => made.user() }
const products = { id: (made: Fixtures) => made.product() }
const books = { id: (made: Fixtures) => made.book() }
const deletedProducts = { id: (made: Fixtures) => made.deletedProduct() }
const deletedBooks = { id: (made: Fixtures) => made.deletedBook() }
const tasks = { id: (made: Fixtures) => made.task(), missing: missingTask }
const endedTasks = { id: (made: Fixtures) => made.endedTask(), missing: missingTask }
const webhooks = { id: (made: Fixtures) => made.webhook(), missing: missingWebhook }
const deliveries = { id: (made: Fixtures) => made.delivery(), missing: [missingWebhook, `dlv_${'A'.repeat(22)}`] }
const clients = { id: (made: Fixtures) => made.client() }
const interaction = { id: async () => 'nothing' }
const keys = { id: (made: Fixtures) => made.key() }
const jobs = { id: (made: Fixtures) => made.job() }
const failedJobs = { id: (made: Fixtures) => made.failedJob() }
const backups = { id: (made: Fixtures) => made.backup() }

/**
 * Authorization matrix (API1 and API5 in the OWASP API Security Top 10), with one row per route. HEAD has the same row as
 * GET; paths with and without a version prefix share a row.
 */
export const matrix: Record<string, Row> = {
  'GET /': everybody(200),
  'GET /livez': everybody(200),
  'GET /readyz': everybody(200),
  'GET /metrics': admins(200),
  'GET /openapi.json': everybody(200),
  'GET /docs': everybody(200),
  'GET /docs/start.js': everybody(200),
  'GET /docs/reference.js': everybody(200),
  'GET /problems': everybody(200),
  'GET /problems/:code': { ...everybody(200), id: async () => 'auth-required' },
  'GET /.well-known/webhook-keys.json': everybody(200),

  'GET /users': all(200),
  'POST /users': { ...all(201), body: user },
  'GET /users/:id': { ...all(200), ...users },
  'PUT /users/:id': { ...all(200), ...users, body: user },
  'PATCH /users/:id': { ...all(200), ...users, body: () => ({ name: 'New' }) },
  'DELETE /users/:id': { ...all(204), ...users },
  'GET /products': everybody(200),
  'POST /products': { ...all(201), body: product },
  'GET /products/:id': { ...everybody(200), ...products },
  'PUT /products/:id': { ...all(200), ...products, body: product },
  'PATCH /products/:id': { ...all(200), ...products, body: () => ({ price: 2 }) },
  'DELETE /products/:id': { ...all(204), ...products },
  'GET /books': everybody(200),
  'POST /books': { ...all(201), body: book },
  'GET /books/:id': { ...everybody(200), ...books },
  'PUT /books/:id': { ...all(200), ...books, body: book },
  'PATCH /books/:id': { ...all(200), ...books, body: () => ({ genre: 'New' }) },
  'DELETE /books/:id': { ...all(204), ...books },

  'POST /api/batch': { ...all(200), body: batch },
  'GET /api/deleted/products': all(200),
  'POST /api/deleted/products/:id/restore': { ...all(201), ...deletedProducts },
  'DELETE /api/deleted/products/:id': { ...all(204), ...deletedProducts },
  'GET /api/deleted/books': all(200),
  'POST /api/deleted/books/:id/restore': { ...all(201), ...deletedBooks },
  'DELETE /api/deleted/books/:id': { ...all(204), ...deletedBooks },

  'GET /api/report-types': all(200),
  'GET /api/reports': all(200),
  'POST /api/reports': { ...all(202), body: report },
  'GET /api/reports/:taskId': { ...owned(200), ...tasks },
  'GET /api/reports/:taskId/status': { ...owned(200), ...tasks },
  'GET /api/reports/:taskId/download': { ...owned(409), ...tasks },
  'GET /api/reports/:taskId/events': { ...owned(200), ...endedTasks },
  'POST /api/reports/:taskId/cancel': { ...owned(200), ...tasks },
  'POST /api/reports/:taskId/retry': { ...owned(202), ...endedTasks },
  'DELETE /api/reports/:taskId': { ...owned(204), ...tasks },

  'GET /api/event-types': all(200),
  'GET /api/webhooks': all(200),
  'POST /api/webhooks': { ...all(201), body: hook },
  'GET /api/webhooks/statistics': all(200),
  'GET /api/webhooks/secret': all(200),
  'GET /api/webhooks/:id': { ...owned(200), ...webhooks },
  // A second rotation within a day succeeds only with `immediate`.
  'POST /api/webhooks/secret/rotate': { ...all(200), body: () => ({ immediate: true }) },
  'PATCH /api/webhooks/:id': { ...owned(200), ...webhooks, body: () => ({ status: 'paused' }) },
  'DELETE /api/webhooks/:id': { ...owned(204), ...webhooks },
  'POST /api/webhooks/:id/test': { ...owned(202), ...webhooks },
  'POST /api/webhooks/:id/rotate-secret': { ...owned(200), ...webhooks },
  'POST /api/webhooks/:id/replay': { ...owned(202), ...webhooks, body: () => ({ since: '2026-03-01T00:00:00Z' }) },
  'GET /api/webhooks/:id/deliveries': { ...owned(200), ...webhooks },
  'GET /api/webhooks/:id/deliveries/:deliveryId': { ...owned(200), ...deliveries },
  'POST /api/webhooks/:id/deliveries/:deliveryId/redeliver': { ...owned(202), ...deliveries },

  'POST /api/users/:id/invitation': { ...admins(201), ...users },
  'GET /api/users': admins(200),
  'GET /api/users/:id/account': { ...admins(200), ...users },
  'PATCH /api/users/:id/account': { ...admins(200), ...users, body: () => ({ locked: true }) },
  'GET /api/users/:id/sessions': { ...admins(200), ...users },
  'DELETE /api/users/:id/sessions': { ...admins(204), ...users },
  // 404 even for administrators, because the new user has neither sessions nor grants.
  'DELETE /api/users/:id/sessions/:sessionId': { ...admins(404), id: async (made) => [String(await made.user()), 'x'] },
  'GET /api/users/:id/grants': { ...admins(200), ...users },
  'DELETE /api/users/:id/grants/:clientId': { ...admins(404), id: async (made) => [String(await made.user()), 'x'] },

  'GET /api/clients': admins(200),
  'POST /api/clients': { ...admins(201), body: client },
  'GET /api/clients/:id': { ...admins(200), ...clients },
  'PATCH /api/clients/:id': { ...admins(200), ...clients, body: () => ({ name: 'New' }) },
  'DELETE /api/clients/:id': { ...admins(204), ...clients },
  'POST /api/clients/:id/rotate-secret': { ...admins(200), ...clients },
  'GET /api/clients/:id/usage': { ...admins(200), ...clients },
  'GET /api/keys': admins(200),
  'POST /api/keys': { ...admins(201), body: () => ({ name: 'Key' }) },
  'GET /api/keys/:id': { ...admins(200), ...keys },
  'PATCH /api/keys/:id': { ...admins(200), ...keys, body: () => ({ name: 'New' }) },
  'DELETE /api/keys/:id': { ...admins(204), ...keys },
  'GET /api/signing-keys': admins(200),
  'POST /api/signing-keys/rotate': admins(200),
  'GET /api/keys/:id/usage': { ...admins(200), ...keys },
  'GET /api/audit': admins(200),
  'GET /api/audit/archives': admins(200),
  'GET /api/audit/export': admins(200),
  'GET /api/audit/verification': admins(200),
  'POST /api/audit/verification': admins(202),
  'GET /api/health': admins(200),
  'GET /api/health/examination': admins(200),
  'POST /api/health/examination': admins(202),
  'GET /api/settings': admins(200),
  'GET /api/storage': admins(200),
  'GET /api/backups': admins(200),
  // 409 even for administrators, because these tests configure no backups and the file is on another node.
  'POST /api/backups': admins(409),
  'GET /api/backups/:id': { ...admins(200), ...backups },
  'GET /api/backups/:id/download': { ...admins(409), ...backups },
  'POST /api/backups/:id/verify': { ...admins(409), ...backups },
  'GET /api/versions': admins(200),
  'GET /api/versions/:version/retirement': { ...admins(200), id: async () => 'v1' },
  'GET /api/nodes': admins(200),
  'GET /api/queues': admins(200),
  'GET /api/jobs': admins(200),
  'GET /api/jobs/:id': { ...admins(200), ...jobs },
  'POST /api/jobs/:id/retry': { ...admins(200), ...failedJobs },
  'POST /api/jobs/:id/cancel': { ...admins(200), ...jobs },
  'GET /api/schedules': admins(200),
  'GET /api/metrics/history': admins(200),
  'GET /api/traffic': admins(200),
  'GET /api/requests': admins(200),
  'GET /api/requests/:requestId': { ...admins(404), id: async () => 'not-stored' },
  'GET /api/usage': { ...all(200), scopeless: 200 },

  'GET /.well-known/openid-configuration': everybody(200),
  'GET /.well-known/oauth-authorization-server': everybody(200),
  'GET /.well-known/oauth-protected-resource': everybody(200),
  'GET /oauth/jwks': everybody(200),
  'GET /oauth/authorize': itself(400),
  'GET /oauth/authorize/:uid': { ...itself(400), id: async () => 'nothing' },
  'GET /oauth/logout': itself(200),
  'GET /oauth/logout/success': itself(200),
  'POST /oauth/logout/confirm': itself(400),
  'POST /oauth/token': itself(401),
  'POST /oauth/revoke': itself(401),
  'POST /oauth/introspect': itself(401),
  'POST /oauth/authorize': itself(400),
  'POST /oauth/logout': itself(400),
  'GET /oauth/interaction/:uid': { ...itself(400), ...interaction },
  'POST /oauth/interaction/:uid/login': { ...itself(400), ...interaction },
  'POST /oauth/interaction/:uid/consent': { ...itself(400), ...interaction },
  'POST /oauth/interaction/:uid/cancel': { ...itself(400), ...interaction },
  'GET /oauth/invitation': itself(404),
  'POST /oauth/invitation': itself(404),
  // Requires a user's token with the openid scope.
  'GET /oauth/userinfo': { ...all(403), none: 401, scopeless: 401 },
  'POST /oauth/userinfo': { ...all(403), none: 401, scopeless: 401 },
}
