import type { ReportKind } from '../report-types.ts'

/** Requests per client and day; a client sees its own, `admin` sees all. */
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
