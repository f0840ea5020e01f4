import type { ReportKind } from './report-types.ts'

/**
 * Delivery attempts to the requester's webhooks and one-off callback URLs; the events may belong to other
 * clients.
 */
export const deliveries: ReportKind = {
  name: 'deliveries',
  title: 'Webhook deliveries',
  scope: 'webhooks:read',
  columns: [
    { name: 'deliveryId', type: 'string', sql: 'attempts.delivery_id' },
    { name: 'attempt', type: 'integer', sql: 'attempts.attempt' },
    { name: 'event', type: 'string', sql: 'events.type' },
    { name: 'eventId', type: 'string', sql: 'events.id' },
    { name: 'webhookId', type: 'string', sql: 'deliveries.webhook_id' },
    { name: 'url', type: 'string', sql: 'deliveries.url' },
    { name: 'startedAt', type: 'instant', sql: 'attempts.started_at' },
    { name: 'durationMs', type: 'integer', sql: 'attempts.duration_ms' },
    { name: 'statusCode', type: 'integer', sql: 'attempts.status_code' },
    { name: 'error', type: 'string', sql: 'attempts.error' },
    { name: 'deliveryStatus', type: 'string', sql: 'deliveries.status' },
  ],
  from: [
    'attempts join deliveries on deliveries.id = attempts.delivery_id',
    'join events on events.id = deliveries.event_id',
  ].join(' '),
  key: ['attempts.delivery_id', 'attempts.attempt'],
  time: { column: 'attempts.started_at', type: 'instant' },
  filters: [
    { name: 'event', type: 'string', column: 'events.type', op: '=', folded: false },
    { name: 'webhookId', type: 'string', column: 'deliveries.webhook_id', op: '=', folded: false },
    { name: 'deliveryStatus', type: 'string', column: 'deliveries.status', op: '=', folded: false },
  ],
  owned: { client: 'deliveries.owner_client', subject: 'deliveries.owner_subject', adminSeesAll: false },
}

/** Requests per client and day. A client sees only its own requests; `admin` sees all of them. */
export const activity: ReportKind = {
  name: 'activity',
  title: 'Activity',
  scope: null,
  columns: [
    { name: 'day', type: 'date', sql: 'day' },
    { name: 'clientId', type: 'string', sql: 'client_id' },
    { name: 'requests', type: 'integer', sql: 'requests' },
  ],
  from: 'request_counts',
  key: ['day', 'client_id'],
  time: { column: 'day', type: 'date' },
  filters: [{ name: 'clientId', type: 'string', column: 'client_id', op: '=', folded: false }],
  owned: { client: 'client_id', adminSeesAll: true },
}
