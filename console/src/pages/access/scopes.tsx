import { useDocument } from '../../api/document.ts'
import { CheckField } from '../../ui/fields.tsx'

/** Returns every scope of the service with its description, in display order. */
export const useScopes = () =>
  useDocument('scopes', async (read) => {
    const { securitySchemes } = (await read()).components
    return securitySchemes.oauth2.flows.authorizationCode.scopes
  })

const personal = ['openid', 'profile', 'email', 'offline_access']
const administrative = ['admin', 'audit:read']

function groupOf(scope: string): string {
  if (personal.includes(scope)) return 'The person who signs in'
  if (administrative.includes(scope)) return 'Administration'
  const [resource = ''] = scope.split(':')
  return resource.charAt(0).toUpperCase() + resource.slice(1)
}

interface ScopePickerProps {
  /** The scopes of the service with their descriptions. */
  known: Readonly<Record<string, string>>
  selected: readonly string[]
  onChange: (selected: string[]) => void
  error?: string | undefined
}

/** Check boxes for scopes, grouped by resource. */
export function ScopePicker({ known, selected, onChange, error }: ScopePickerProps) {
  const groups = Map.groupBy(Object.entries(known), ([scope]) => groupOf(scope))
  const toggle = (scope: string, isSelected: boolean) =>
    onChange(isSelected ? [...selected, scope] : selected.filter((one) => one !== scope))
  return (
    <fieldset className="field">
      <legend>Scopes</legend>
      <div className="hint">What the tokens of the client may do. Choose as little as possible.</div>
      {error !== undefined && (
        <div className="error" role="alert">
          Scopes: {error}
        </div>
      )}
      <div className="grid">
        {[...groups].map(([title, scopes]) => (
          <fieldset key={title} className="stack tight" style={{ alignContent: 'start' }}>
            <legend>{title}</legend>
            {scopes.map(([scope, description]) => (
              <CheckField
                key={scope}
                label={scope}
                hint={description}
                isSelected={selected.includes(scope)}
                onChange={(isSelected) => toggle(scope, isSelected)}
              />
            ))}
          </fieldset>
        ))}
      </div>
    </fieldset>
  )
}
