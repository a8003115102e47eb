   Nothing is allocated, nothing but these arguments is read or written: callers with arenas of their
   own may run at the same time. A list is a @NAME@_tensor with one axis whose data are others, one
   for each value: any number of a sequence, 1 or none of an optional value; an input that is one
   points to it.

   A result other than 0 says that nothing was computed, and @NAME@_status_text what happened; where
   there is too little memory, a larger arena may do.