import { type Api, unwrap } from '../../api/client.ts'
import type { paths } from '../../api/schema.d.ts'
import { countText, Time } from '../../ui/format.tsx'

type ClientUsage = paths['/api/clients/{id}/usage']['get']['responses'][200]['content']['application/json']
type Quota = ClientUsage['accounts'][number]['quotas'][number]

interface Use {
  /** The effective rate as requests/seconds; null if there is none. */
  rate: string | null
  accounts: { name: string; quotas: Quota[] }[]
}

/** Reads the quota usage of a client and its users. */
export async function readUse(api: Api, id: string): Promise<Use> {
  const { rate, accounts } = await unwrap(api.GET('/api/clients/{id}/usage', { params: { path: { id } } }))
  const nameOf = (subject: string, userName?: string) => userName ?? (subject === id ? 'The client itself' : subject)
  return {
    rate,
    accounts: accounts.map(({ subject, userName, quotas }) => ({ name: nameOf(subject, userName), quotas })),
  }
}

/** Shows the rate, and this month's quota usage. */
export function UseOfQuotas({ use }: { use: Use }) {
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

/** Formats a rate, given as requests/seconds, such as "600 requests in 60 seconds". */
export const rateWords = (rate: string) => {
  const [calls, seconds] = rate.split('/').map(Number)
  return `${countText(calls ?? 0)} requests in ${seconds} seconds`
}
