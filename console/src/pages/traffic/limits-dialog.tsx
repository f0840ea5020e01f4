import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { type Api, unwrap, unwrapWithHeaders, useApi } from '../../api/client.ts'
import type { paths } from '../../api/schema.d.ts'
import { Button } from '../../ui/button.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { fieldError, TextField } from '../../ui/fields.tsx'
import { countText, Time } from '../../ui/format.tsx'
import { Loaded, messageOf } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'

/** The client whose limits are shown. */
export interface Limited {
  id: string
  name: string
}

type ClientUsage = paths['/api/clients/{id}/usage']['get']['responses'][200]['content']['application/json']
type Quota = ClientUsage['accounts'][number]['quotas'][number]

interface Limits {
  rate: string | null
  quota: number | null
  etag: string
}

interface Use {
  /** The rate that applies, as calls/seconds; null if there is none. */
  rate: string | null
  accounts: { name: string; quotas: Quota[] }[]
}

/** Shows the limits of a client and their use, and changes them. */
export function LimitsDialog({ of, onClose }: { of: Limited; onClose: () => void }) {
  const api = useApi()
  const loaded = useQuery({
    queryKey: ['limits', of.id],
    staleTime: 0,
    queryFn: async () => {
      const [limits, use] = await Promise.all([readLimits(api, of), readUse(api, of)])
      return { limits, use }
    },
  })
  return (
    <Dialog title={`Limits of ${of.name}`} isOpen onClose={onClose}>
      <Loaded query={loaded}>
        {({ limits, use }) => (
          <>
            <UseOfQuotas use={use} />
            <LimitsForm key={limits.etag} of={of} limits={limits} defaultRate={use.rate} onClose={onClose} />
          </>
        )}
      </Loaded>
    </Dialog>
  )
}

async function readLimits(api: Api, { id }: Limited): Promise<Limits> {
  const { data, headers } = await unwrapWithHeaders(api.GET('/api/clients/{id}', { params: { path: { id } } }))
  return { rate: data.rate ?? null, quota: data.quota ?? null, etag: headers.get('etag') ?? '*' }
}

async function readUse(api: Api, { id }: Limited): Promise<Use> {
  const { rate, accounts } = await unwrap(api.GET('/api/clients/{id}/usage', { params: { path: { id } } }))
  const nameOf = (subject: string, userName?: string) => userName ?? (subject === id ? 'The client itself' : subject)
  return {
    rate,
    accounts: accounts.map(({ subject, userName, quotas }) => ({ name: nameOf(subject, userName), quotas })),
  }
}

function UseOfQuotas({ use }: { use: Use }) {
  const rows = use.accounts.flatMap(({ name, quotas }) => quotas.map((quota) => ({ name, quota })))
  const reset = rows[0]?.quota.reset
  return (
    <div className="stack tight">
      <p>
        {use.rate === null
          ? 'There is no limit for the rate.'
          : `${rateWords(use.rate)} now apply to the client itself and to each of its users.`}
      </p>
      {reset === undefined ? (
        <p className="quiet">No quota has been used this month.</p>
      ) : (
        <p className="quiet small">
          Quotas of this month, until <Time at={new Date(reset * 1_000).toISOString()} />
        </p>
      )}
      {rows.map(({ name, quota }) => (
        <div key={`${name} ${quota.name}`}>
          <div className="row between small">
            <span>
              {name}: {quota.name}
            </span>
            <span>
              {countText(quota.used)} of {countText(quota.limit)}
            </span>
          </div>
          <progress
            value={quota.used}
            max={quota.limit}
            aria-label={`${name}: ${quota.name}, ${quota.used} of ${quota.limit} used`}
          />
        </div>
      ))}
    </div>
  )
}

const rateWords = (rate: string) => {
  const [calls, seconds] = rate.split('/').map(Number)
  return `${countText(calls ?? 0)} requests in ${seconds} seconds`
}

interface FormProps {
  of: Limited
  limits: Limits
  defaultRate: string | null
  onClose: () => void
}

function LimitsForm({ of, limits, defaultRate, onClose }: FormProps) {
  const [initialCalls = '', initialSeconds = ''] = limits.rate?.split('/') ?? []
  const [, usualSeconds = '60'] = defaultRate?.split('/') ?? []
  const [calls, setCalls] = useState(initialCalls)
  const [seconds, setSeconds] = useState(initialSeconds || usualSeconds)
  const [quota, setQuota] = useState(limits.quota === null ? '' : String(limits.quota))
  const change = useChange(of, limits.etag, onClose)
  const save = (event: FormEvent) => {
    event.preventDefault()
    change.mutate({ rate: calls === '' ? null : `${calls}/${seconds}`, quota: quota === '' ? null : Number(quota) })
  }
  return (
    <form className="stack" onSubmit={save}>
      <div className="pair">
        <TextField
          label="Requests allowed"
          type="number"
          min={1}
          value={calls}
          onChange={setCalls}
          hint="Empty for the default rate"
          error={fieldError(change.error, 'rate')}
        />
        <TextField label="In seconds" type="number" min={1} max={86_400} value={seconds} onChange={setSeconds} />
      </div>
      <TextField
        label="Requests per month"
        type="number"
        min={1}
        value={quota}
        onChange={setQuota}
        hint="Empty for the default quota"
        error={fieldError(change.error, 'quota')}
      />
      {change.isError && (
        <p className="notice wrong" role="alert">
          {messageOf(change.error)}
        </p>
      )}
      <div className="row end">
        <Button isDisabled={change.isPending} onPress={onClose}>
          Cancel
        </Button>
        <Button type="submit" look="primary" isDisabled={change.isPending}>
          Save limits
        </Button>
      </div>
    </form>
  )
}

function useChange({ id, name }: Limited, etag: string, onClose: () => void) {
  const api = useApi()
  const queries = useQueryClient()
  return useMutation({
    mutationFn: (body: { rate: string | null; quota: number | null }) =>
      unwrap(api.PATCH('/api/clients/{id}', { params: { path: { id }, header: { 'If-Match': etag } }, body })),
    onSuccess: async () => {
      toast(`The limits of ${name} apply within 30 seconds`)
      onClose()
      await queries.invalidateQueries()
    },
  })
}
