import { getRouteApi, Link } from '@tanstack/react-router'
import { unwrapWithHeaders, useApi } from '../../api/client.ts'
import { useDownload } from '../../api/download.ts'
import { Paged } from '../../api/pages.tsx'
import type { components } from '../../api/schema.d.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { Time } from '../../ui/format.tsx'
import { Badge, Page, Section, type Tone } from '../../ui/page.tsx'
import { Empty } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import { Archives, Chain } from './audit-chain.tsx'
import { AuditFilters, type AuditSearch, filtersOf } from './audit-filters.tsx'

type Entry = components['schemas']['AuditEntry']

const route = getRouteApi('/audit')

/** The audit log with its filters, the verification of its chain, and its export. */
export function Audit() {
  const api = useApi()
  const search = route.useSearch()
  const { download, active } = useDownload()
  const filters = filtersOf(search)
  const isFiltered = Object.keys(filters).length > 0
  const exportPath = `/api/audit/export?${new URLSearchParams(filters)}`
  return (
    <Page
      title="Audit log"
      about="Sign-ins, tokens, refusals and changes of access, newest first. A chain of hashes shows whether an entry was altered."
      actions={
        <Button isDisabled={active !== null} onPress={() => void download(exportPath, 'audit.ndjson')}>
          {isFiltered ? 'Export these entries' : 'Export all entries'}
        </Button>
      }
    >
      <Chain />
      <Section title="Entries">
        <AuditFilters key={JSON.stringify(search)} search={search} />
        <Paged
          queryKey={['audit', 'entries', filters]}
          read={(cursor) =>
            unwrapWithHeaders(
              api.GET('/api/audit', { params: { query: { limit: 50, ...filters, ...(cursor && { cursor }) } } }),
            )
          }
        >
          {(rows) => {
            if (rows.length === 0)
              return (
                <div className="card">
                  <Empty title={isFiltered ? 'No entry matches' : 'There are no entries yet'} />
                </div>
              )
            return <Table label="Entries" rows={rows} keyOf={({ sequence }) => sequence} columns={columns} />
          }}
        </Paged>
      </Section>
      <Archives />
    </Page>
  )
}

const tones: readonly (readonly [RegExp, Tone])[] = [
  [/failed|blocked|denied|refused|plaintext|overflow/, 'wrong'],
  [/revoked|deleted|locked|disabled|rotated|retired|ended/, 'warn'],
]
const toneOf = (event: string) => tones.find(([pattern]) => pattern.test(event))?.[1] ?? 'info'

/** A value in the log; clicking it shows only entries with this value. */
function Only({ search, children }: { search: AuditSearch; children: string }) {
  return (
    <Link to="/audit" search={search} resetScroll={false} title="Show only entries with this value">
      {children}
    </Link>
  )
}

const columns: Column<Entry>[] = [
  {
    title: 'Entry',
    cell: ({ at, event, sequence }) => (
      <div className="cell">
        <Badge tone={toneOf(event)}>{event}</Badge>
        <div>
          <Time at={at} />
        </div>
        <div className="quiet small">entry {sequence}</div>
      </div>
    ),
  },
  {
    title: 'Who',
    cell: ({ subject, clientId, address }) => (
      <>
        {subject === undefined ? '–' : <Only search={{ subject }}>{subject}</Only>}
        {clientId !== undefined && clientId !== subject && (
          <div className="small">
            through <Only search={{ clientId }}>{clientId}</Only>
          </div>
        )}
        {address !== undefined && <div className="quiet small">{address}</div>}
      </>
    ),
  },
  {
    title: 'What',
    cell: ({ target, details, requestId }) => (
      <>
        {target !== undefined && <Only search={{ target }}>{target}</Only>}
        <Details details={details} />
        {requestId !== undefined && <RequestLink id={requestId} />}
      </>
    ),
  },
]

/** Shows a request id; for administrators, as a link to the request, which only they may read. */
function RequestLink({ id }: { id: string }) {
  const { may } = useSession()
  return (
    <div className="quiet small">
      request{' '}
      {may('admin') ? (
        <Link to="/requests/$requestId" params={{ requestId: id }}>
          {id}
        </Link>
      ) : (
        id
      )}
    </div>
  )
}

const longText = 120

function Details({ details = {} }: Pick<Entry, 'details'>) {
  const texts = Object.entries(details).flatMap(([name, value]) => {
    const text = Array.isArray(value) ? value.join(', ') : typeof value === 'object' ? JSON.stringify(value) : value
    return text === '' || text === false ? [] : [`${name}: ${String(text)}`]
  })
  const all = texts.join(' · ')
  if (all.length <= longText) return all && <div>{all}</div>
  return (
    <details>
      <summary className="summary-text">{all.slice(0, longText)}…</summary>
      {texts.map((text) => (
        <div key={text}>{text}</div>
      ))}
    </details>
  )
}
