import type { Schema } from './openapi-schemas.ts'

const taskId = 'tsk_9mZ4qXb1TzqkPj0y7vWc2A'
const webhookId = 'whk_Q2hhcmxlcyBCYWJiYWdlXw'
const statusPath = `/api/reports/${taskId}/status`
const resultPath = `/api/reports/${taskId}/download`

/**
 * Plausible values by field, or by the start of a schema's name and a field; undefined keeps a field out of examples.
 * Fields that are not here get a value that their schema allows.
 */
const samples: Record<string, unknown> = {
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  address: '12 St James’s Square, London',
  phone: '+44 20 7946 0958',
  'Product.name': 'Desk lamp',
  price: 24.5,
  'Book.title': 'Notes on the Analytical Engine',
  'Book.author': 'Ada Lovelace',
  'Book.genre': 'mathematics',
  'Book._links': {
    self: { href: '/books/1' },
    update: { href: '/books/1', method: 'PUT' },
    delete: { href: '/books/1', method: 'DELETE' },
    author: { href: '/books?author=Ada%20Lovelace' },
  },
  taskId,
  'Task.status': 'completed',
  'Task.error': undefined,
  'Task._links': {
    self: { href: `/api/reports/${taskId}` },
    status: { href: statusPath },
    download: { href: resultPath },
  },
  resultUrl: resultPath,
  reportType: 'books',
  'Report.formats': ['json', 'csv'],
  'ReportType.columns': [{ name: 'id', type: 'integer' }],
  format: 'csv',
  progress: 100,
  webhookUrl: 'https://client.example/hooks/plinth',
  callbackUrl: 'https://client.example/hooks/plinth',
  event: 'report.completed',
  'EventType.description': 'A report task completed and its result can be downloaded',
  'EventType.example': { taskId, status: 'completed', resultUrl: resultPath },
  eventId: 'msg_Rmlyc3RQcm9ncmFtbWVyXw',
  headers: { 'x-environment': 'staging' },
  expiresAt: '2026-03-08T12:00:00.000Z',
  rowCount: 1_200,
  sizeBytes: 65_536,
  statusReason: undefined,
  description: 'Tells the billing system',
  'Webhook.id': webhookId,
  'CreatedWebhook.id': webhookId,
  'Delivery.id': 'dlv_QW5hbHl0aWNhbEVuZ2luZV',
  nextAttemptAt: undefined,
  secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw5vZ2HYI0Qk4=',
  kty: 'OKP',
  crv: 'Ed25519',
  x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
  kid: 'kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k',
  alg: 'EdDSA',
  use: 'sig',
  statusCode: 204,
  error: undefined,
  responseStart: '',
}

const instant = '2026-03-01T12:00:00.000Z'

/** An example of an object with all its members, but for those whose sample is undefined. */
export function exampleOf(schema: Schema, name: string): unknown {
  const members = Object.entries(schema.properties ?? {}).flatMap(([field, member]) => {
    const value = sampleOf(member, name, field)
    return value === undefined ? [] : [[field, value]]
  })
  return Object.fromEntries(members)
}

function sampleOf(schema: Schema, name: string, field: string): unknown {
  const qualified = Object.keys(samples).find((key) => {
    const [owner, member] = key.split('.')
    return member === field && name.startsWith(owner as string)
  })
  const key = qualified ?? field
  return Object.hasOwn(samples, key) ? samples[key] : anyValue(schema, name)
}

const formats: Readonly<Record<string, string>> = {
  'date-time': instant,
  date: '2026-03-01',
  time: '12:00:00Z',
  email: 'ada@example.com',
  uri: 'https://client.example/',
  uuid: '018e0f3a-0c5e-7d2a-9b1c-2f6d3a4b5c6d',
}

/** Text of a length that is allowed; a pattern of the author's own is for their examples to meet. */
const textOf = ({ minLength = 0, maxLength = Infinity }: Schema): string =>
  'text'.padEnd(Number(minLength), ' text').slice(0, Number(maxLength))

function anyValue(schema: Schema, name: string): unknown {
  const { enum: allowed, type, format = '', minimum, items, examples, anyOf, const: only } = schema
  if (Array.isArray(examples)) return examples[0]
  if (Array.isArray(allowed)) return allowed[0]
  if (Array.isArray(anyOf)) return anyValue(anyOf[0], name)
  if (only !== undefined) return only
  if (type === 'array') return items ? [anyValue(items, name)] : []
  if (type === 'object') return exampleOf(schema, name)
  if (type === 'integer' || type === 'number') return minimum ?? 1
  if (type === 'boolean') return true
  return formats[format as string] ?? textOf(schema)
}
