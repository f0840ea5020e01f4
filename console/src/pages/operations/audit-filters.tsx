import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import type { components } from '../../api/schema.d.ts'
import { Button } from '../../ui/button.tsx'
import { SelectField, TextField } from '../../ui/fields.tsx'

type Event = components['schemas']['AuditEntry']['event']

/** The audit log filters in the page's URL. Times without a zone are local. */
export interface AuditSearch {
  event?: string | undefined
  clientId?: string | undefined
  subject?: string | undefined
  target?: string | undefined
  from?: string | undefined
  to?: string | undefined
}

/** Converts the filters to query parameters of the API. Times without a zone are local. */
export function filtersOf({ from, to, ...equal }: AuditSearch): Record<string, string> {
  const instantOf = (text: string | undefined) => {
    const at = text === undefined ? Number.NaN : Date.parse(text)
    return Number.isNaN(at) ? text : new Date(at).toISOString()
  }
  const all = { ...equal, from: instantOf(from), to: instantOf(to) }
  return Object.fromEntries(Object.entries(all).flatMap(([name, value]) => (value ? [[name, value]] : [])))
}

/** Must list every event type of the API; otherwise, this does not compile. */
const known: Record<Event, true> = {
  'login.succeeded': true,
  'login.failed': true,
  'login.blocked': true,
  'password.changed': true,
  'invitation.created': true,
  'user.updated': true,
  'account.role_changed': true,
  'account.locked': true,
  'account.unlocked': true,
  'session.ended': true,
  'consent.granted': true,
  'consent.denied': true,
  'consent.revoked': true,
  'token.granted': true,
  'token.refused': true,
  'token.revoked': true,
  'grant.revoked': true,
  'client.created': true,
  'client.updated': true,
  'client.secret_rotated': true,
  'client.revoked': true,
  'key.created': true,
  'key.updated': true,
  'key.revoked': true,
  'signing_key.published': true,
  'signing_key.retired': true,
  'master_key.rotated': true,
  'webhook.created': true,
  'webhook.updated': true,
  'webhook.secret_rotated': true,
  'webhook.disabled': true,
  'webhook.deleted': true,
  'webhook.replayed': true,
  'access.denied': true,
  'credential.plaintext': true,
  'audit.overflow': true,
  'audit.archived': true,
  'backup.requested': true,
  'backup.downloaded': true,
  'job.retried': true,
  'job.cancelled': true,
}
const events = [
  { value: '', label: 'Any' },
  ...Object.keys(known)
    .toSorted()
    .map((value) => ({ value, label: value })),
]

/** The filter form. It searches only on submit, because some filters scan the whole log. */
export function AuditFilters({ search }: { search: AuditSearch }) {
  const navigate = useNavigate()
  const [draft, setDraft] = useState(search)
  const go = (next: AuditSearch) => void navigate({ to: '/audit', search: next, resetScroll: false })
  const field = (name: keyof AuditSearch) => ({
    value: draft[name] ?? '',
    onChange: (value: string) => setDraft({ ...draft, [name]: value || undefined }),
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    go(draft)
  }
  return (
    <search>
      <form className="stack" onSubmit={submit}>
        <div className="filters">
          <SelectField label="Event" options={events} {...field('event')} />
          <TextField label="Subject" placeholder="id of a user or client" {...field('subject')} />
          <TextField label="Client" placeholder="id of a client" {...field('clientId')} />
          <TextField label="Target" placeholder="id of what was changed" {...field('target')} />
          <TextField label="From" type="datetime-local" {...field('from')} />
          <TextField label="Before" type="datetime-local" {...field('to')} />
        </div>
        <div className="row">
          <Button type="submit" look="primary">
            Search
          </Button>
          {Object.values(search).some((value) => value !== undefined) && (
            <Button onPress={() => go({})}>Clear the filters</Button>
          )}
        </div>
      </form>
    </search>
  )
}
