import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { unwrap, useApi } from '../../api/client.ts'
import { Button } from '../../ui/button.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { Time } from '../../ui/format.tsx'
import { Badge, Page, type Tone } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import { toast } from '../../ui/toast.tsx'
import type { SigningKey } from './access-types.ts'

const looks: Readonly<Record<SigningKey['state'], { text: string; tone?: Tone }>> = {
  published: { text: 'Published, does not sign yet', tone: 'info' },
  signing: { text: 'Signs new tokens', tone: 'good' },
  verifying: { text: 'Only verifies old tokens' },
}

const columns: Column<SigningKey>[] = [
  {
    title: 'Key',
    cell: ({ kid, algorithm }) => (
      <>
        <code>{kid}</code>
        <div className="quiet small">{algorithm}</div>
      </>
    ),
  },
  { title: 'State', cell: ({ state }) => <Badge tone={looks[state].tone}>{looks[state].text}</Badge> },
  { title: 'Created', cell: ({ createdAt }) => <Time at={createdAt} isRelative /> },
  { title: 'Signs from', cell: ({ signsFrom }) => <Time at={signsFrom} isRelative /> },
  { title: 'Signs until', cell: ({ signsUntil }) => <Time at={signsUntil} isRelative /> },
  { title: 'Removed', cell: ({ retiresAt }) => <Time at={retiresAt} isRelative /> },
]

/** The keys that sign access tokens and ID tokens. */
export function SigningKeys() {
  const api = useApi()
  const [isAsked, setAsked] = useState(false)
  const query = useQuery({ queryKey: ['signing-keys'], queryFn: () => unwrap(api.GET('/api/signing-keys')) })
  return (
    <Page
      title="Signing keys"
      about="The keys that sign access tokens and ID tokens. The service rotates them every 90 days."
      actions={<Button onPress={() => setAsked(true)}>Rotate</Button>}
    >
      <Loaded query={query}>
        {(keys) => <Table label="Signing keys" columns={columns} rows={keys} keyOf={({ kid }) => kid} />}
      </Loaded>
      {isAsked && <Rotate onClose={() => setAsked(false)} />}
    </Page>
  )
}

const ways = [
  {
    value: 'tomorrow',
    title: 'From tomorrow',
    about: 'A new key is published now and signs in a day. Nothing stops.',
    body: {},
  },
  {
    value: 'now',
    title: 'At once',
    about: 'The new key signs now. Programs that cache the keys reject new tokens until they read the keys again.',
    body: { immediately: true },
  },
  {
    value: 'discard',
    title: 'At once, and discard all other keys',
    about: 'For a key that has leaked. Every token signed so far is rejected, and users must sign in again.',
    body: { discard: true },
  },
] as const

function Rotate({ onClose }: { onClose: () => void }) {
  const api = useApi()
  const queries = useQueryClient()
  const [chosen, setChosen] = useState<(typeof ways)[number]>(ways[0])
  const rotate = async () => {
    const { published } = await unwrap(api.POST('/api/signing-keys/rotate', { body: chosen.body }))
    toast(published === null ? 'A key is already published and signs from tomorrow' : 'Keys rotated')
    await queries.invalidateQueries({ queryKey: ['signing-keys'] })
  }
  return (
    <Confirm
      title="Rotate the signing keys?"
      action="Rotate"
      isDangerous={chosen.value !== 'tomorrow'}
      isOpen
      onClose={onClose}
      onConfirm={rotate}
    >
      <fieldset className="stack">
        <legend className="visually-hidden">When the new key signs</legend>
        {ways.map((way) => (
          <label key={way.value} className="check">
            <input type="radio" name="way" checked={chosen.value === way.value} onChange={() => setChosen(way)} />
            <span>
              <strong>{way.title}</strong>
              <br />
              <span className="quiet small">{way.about}</span>
            </span>
          </label>
        ))}
      </fieldset>
    </Confirm>
  )
}
