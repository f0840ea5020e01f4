import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { Autocomplete, useFilter } from 'react-aria-components/Autocomplete'
import { Dialog } from 'react-aria-components/Dialog'
import { Menu, MenuItem } from 'react-aria-components/Menu'
import { Modal, ModalOverlay } from 'react-aria-components/Modal'
import { Input, SearchField } from 'react-aria-components/SearchField'
import { visible } from '../navigation.ts'
import { useSession } from '../session/session.ts'
import { type Finder, finders } from './finders.ts'

interface Choice {
  id: string
  title: string
  words: string
  to: string
}

/** The command palette: finds a page by its name, or an object by its pasted id. */
export function Palette({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  const { may } = useSession()
  const { contains } = useFilter({ sensitivity: 'base' })
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const close = () => {
    setText('')
    onClose()
  }
  const pages = visible(may).flatMap(({ title: group, entries }) =>
    entries.map(
      ({ title, to, words = '' }): Choice => ({ id: to, title: group ? `${group}: ${title}` : title, words, to }),
    ),
  )
  const found = finders
    .filter(({ scopes }) => may(...scopes))
    .flatMap((finder: Finder) => choiceOf(finder, text.trim()))
  return (
    <ModalOverlay className="overlay palette" isOpen={isOpen} onOpenChange={(open) => !open && close()} isDismissable>
      <Modal className="modal">
        <Dialog aria-label="Search">
          <Autocomplete
            inputValue={text}
            onInputChange={setText}
            filter={(value, input) => value.includes(input.trim()) || contains(value, input)}
          >
            <SearchField aria-label="Page, or an id" autoFocus>
              <Input placeholder="Page, or an id" />
            </SearchField>
            <Menu
              items={[...found, ...pages]}
              aria-label="Results"
              renderEmptyState={() => <p className="quiet small">Nothing found</p>}
              onAction={() => close()}
            >
              {({ id, title, words, to }: Choice) => (
                <MenuItem id={id} textValue={`${title} ${words}`} onAction={() => void navigate({ to })}>
                  {title}
                </MenuItem>
              )}
            </Menu>
          </Autocomplete>
        </Dialog>
      </Modal>
    </ModalOverlay>
  )
}

function choiceOf({ find, title }: Finder, text: string): Choice[] {
  const to = text === '' ? null : find(text)
  return to === null ? [] : [{ id: `found ${to}`, title: `${title} ${text}`, words: text, to }]
}
