import { useQuery } from '@tanstack/react-query'
import { useSession } from '../../session/session.ts'
import { Time } from '../../ui/format.tsx'
import { Facts, Section } from '../../ui/page.tsx'
import { type Loaded, useSend } from './data.ts'
import type { Resource } from './model.ts'

interface Entry {
  sequence: number
  at: string
  event: string
  clientId?: string | null
  subject?: string | null
}

/** The stored history of a row: its revision and times and, for a user, entries of the audit log. */
export function History({ resource, loaded: { row, etag } }: { resource: Resource; loaded: Loaded }) {
  const { may } = useSession()
  const send = useSend()
  // Only changes to accounts are audited; rows of other resources have no entries.
  const isAudited = resource.name === 'users' && (may('audit:read') || may('admin'))
  const audit = useQuery({
    queryKey: ['records', 'audit', row.id],
    enabled: isAudited,
    queryFn: async () => (await send('GET', `/api/audit?limit=20&target=${row.id}`)).body as Entry[],
  })
  const { createdAt, updatedAt, createdBy } = row
  const revision = /^"(\d+)/.exec(etag ?? '')?.[1]
  return (
    <div className="card">
      <Section title="History">
        <Facts
          of={[
            ['Revision', revision ?? etag],
            ['Created', timeOf(createdAt)],
            ...(typeof createdBy === 'string' ? [['Created by', createdBy] as const] : []),
            ['Last changed', timeOf(updatedAt)],
          ]}
        />
        {audit.data && audit.data.length > 0 && (
          <ol className="record-history">
            {audit.data.map(({ sequence, at, event, clientId, subject }) => (
              <li key={sequence}>
                <Time at={at} /> {event} <span className="quiet">{subject ?? clientId ?? ''}</span>
              </li>
            ))}
          </ol>
        )}
      </Section>
    </div>
  )
}

const timeOf = (at: unknown) => (typeof at === 'string' ? <Time at={at} /> : null)
